// Damage of every kind to every file of a checkpoint, whatever files it has: verify() finds it and
// names the file, and whoever reads gets an error or exactly what was saved.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "checkpoint/file_reader.h"
#include "checkpoint/hdf5_store.h"
#include "checkpoint/names.h"
#include "checkpoint/testing/memory_file_system.h"
#include "checkpoint/verify.h"
#include "judge.h"

namespace zero::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kRanks = 2;
constexpr std::size_t kPage = 4096;

std::string folder_of(std::int64_t step) {
  return "/store/" + step_name(step);
}

class Damage : public ::testing::Test {
 protected:
  /// With a blob that fills pages, if it has bytes.
  void save_step(std::int64_t step, std::size_t blob_bytes, const std::string& run_id = "run") {
    Hdf5StoreOptions options;
    options.block_bytes = 64;
    Sample sample = torture::sample_with_blob(step, kRanks, blob_bytes);
    sample.common().run_id = run_id;
    save(*make_hdf5_store(files_, "/store", options), sample);
  }
  std::string path(const std::string& name) const { return folder_of(5) + "/" + name; }

  /// Names of the files with damage, each once, as verify() reports them.
  std::vector<std::string> damaged(bool quick = false) {
    std::vector<std::string> names;
    for (const Finding& finding : verify(*files_, folder_of(5), {quick, nullptr}).findings) {
      if (names.empty() || names.back() != finding.file) names.push_back(finding.file);
    }
    return names;
  }

  /// What reading everything says: an error's text, or nothing. Fails if it gives wrong data.
  std::string error_of_reading() {
    try {
      const auto reader = open_checkpoint(files_, folder_of(5));
      EXPECT_EQ(torture::difference_with_blob(*reader, 5), "") << "wrong data were read";
      return {};
    } catch (const FormatError& error) {
      return error.what();
    }
  }

  /// The view is for people: nothing that is loaded depends on it.
  static bool is_needed(const std::string& name) { return name != kViewName; }
  static ::testing::Matcher<std::string> if_needed(const std::string& name) {
    if (is_needed(name)) return HasSubstr(name);
    return Eq("");
  }

  /// An error that names the damage, or exactly what was saved: error_of_reading() compares.
  void expect_error_or_whole(const std::string& name) {
    const std::string error = error_of_reading();
    EXPECT_TRUE(error.empty() || error.find(name) != std::string::npos) << name << ": " << error;
  }

  /// Of a file that the manifest lists; false for the manifest itself.
  static bool is_in_dataset(const Manifest& manifest, const std::string& name, std::uint64_t at) {
    for (const FileRecord& file : manifest.files) {
      for (const DatasetRecord& dataset : file.datasets) {
        const bool inside = at >= dataset.offset && at < dataset.offset + dataset.bytes;
        if (file.name == name && inside) return true;
      }
    }
    return false;
  }

  std::shared_ptr<testing::MemoryFileSystem> files_ = std::make_shared<testing::MemoryFileSystem>();
};

/// The parameter says which quarter of the bits, so that several processes share the work.
constexpr int kShares = 4;
class FlippedBits : public Damage, public ::testing::WithParamInterface<int> {
 protected:
  void flip_and_expect_found(const Manifest& manifest, const std::string& name, std::uint64_t bit) {
    const std::vector<std::byte> whole = files_->content(path(name));
    std::vector<std::byte> bytes = whole;
    bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    files_->set_content(path(name), std::move(bytes));
    ASSERT_THAT(damaged(), ElementsAre(name)) << "bit " << bit;
    const std::string error = error_of_reading();
    const bool must_matter = name == kManifestName || is_in_dataset(manifest, name, bit / 8);
    if (must_matter) {
      ASSERT_THAT(error, HasSubstr(name)) << "bit " << bit;
    }
    files_->set_content(path(name), whole);
  }
};

TEST_P(FlippedBits, OfAllFilesAreFoundAndNamed) {
  save_step(5, 0);
  const Manifest manifest = read_manifest(*files_, folder_of(5));
  const std::vector<std::string> names = files_->list(folder_of(5));
  int flips = 0;
  for (const std::string& name : names) {
    const std::uint64_t bits = files_->content(path(name)).size() * 8;
    const std::uint64_t count = 10000 / names.size() + 1;
    // An odd stride: all eight bits of bytes take part.
    const std::uint64_t stride = (bits / count - 1) | 1;
    const auto first = static_cast<std::uint64_t>(GetParam()) * stride;
    for (std::uint64_t bit = first; bit < bits; bit += stride * kShares, ++flips) {
      ASSERT_NO_FATAL_FAILURE(flip_and_expect_found(manifest, name, bit));
    }
  }
  EXPECT_GE(flips, 10000 / kShares);
  EXPECT_THAT(damaged(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Quarters, FlippedBits, ::testing::Range(0, kShares));

TEST_F(Damage, FilesThatEndAtAPageOrHaveLostTheirLastPagesAreFoundAndNamed) {
  save_step(5, 20 * kPage);
  int pages = 0;
  for (const std::string& name : files_->list(folder_of(5))) {
    const std::vector<std::byte> whole = files_->content(path(name));
    for (std::size_t size = 0; size < whole.size(); size += kPage, ++pages) {
      std::vector<std::byte> bytes = whole;
      bytes.resize(size);
      files_->set_content(path(name), bytes);
      ASSERT_THAT(damaged(true), ElementsAre(name)) << size;
      ASSERT_THAT(error_of_reading(), if_needed(name)) << size;
      bytes.resize(
          whole.size());  // As a power cut leaves it: the size is there, the pages are not.
      if (bytes == whole) continue;
      files_->set_content(path(name), bytes);
      ASSERT_THAT(damaged(), ElementsAre(name)) << size;
      expect_error_or_whole(name);
    }
    files_->set_content(path(name), whole);
  }
  EXPECT_GE(pages, 25);
  EXPECT_EQ(error_of_reading(), "");
}

TEST_F(Damage, EveryFileSwappedWithTheOneOfAnotherStepIsFound) {
  save_step(5, 0);
  save_step(6, 0);
  for (const std::string& name : files_->list(folder_of(5))) {
    const auto whole = files_->content(path(name));
    files_->set_content(path(name), files_->content(folder_of(6) + "/" + name));
    const auto found = damaged();
    ASSERT_FALSE(found.empty()) << name;
    if (name != kManifestName) {
      EXPECT_THAT(found, ElementsAre(name));
    }
    EXPECT_EQ(error_of_reading().empty(), !is_needed(name)) << name;
    files_->set_content(path(name), whole);
  }
}

TEST_F(Damage, EveryFileOfAnotherRunIsFoundEvenIfItsDataAreTheSame) {
  save_step(5, 0, "another-run");
  std::map<std::string, std::vector<std::byte>> foreign;
  for (const std::string& name : files_->list(folder_of(5))) {
    foreign[name] = files_->content(path(name));
  }
  make_hdf5_store(files_, "/store")->remove(5);
  save_step(5, 0, "anotherrun2");  // A name of the same length: files of the same size.
  for (const auto& [name, bytes] : foreign) {
    const auto whole = files_->content(path(name));
    ASSERT_NE(bytes, whole);
    files_->set_content(path(name), bytes);
    ASSERT_FALSE(damaged().empty()) << name;
    expect_error_or_whole(name);
    files_->set_content(path(name), whole);
  }
}

TEST_F(Damage, EveryMissingFileIsFoundAndNamed) {
  save_step(5, 0);
  for (const std::string& name : files_->list(folder_of(5))) {
    const auto whole = files_->content(path(name));
    files_->unlink(path(name));
    EXPECT_THAT(damaged(), ElementsAre(name));
    EXPECT_THAT(error_of_reading(), if_needed(name));
    files_->set_content(path(name), whole);
  }
}

TEST_F(Damage, OfTheStructureUnderRightHashesIsFoundUnlessItIsLeftOut) {
  save_step(5, 0);
  Manifest manifest = read_manifest(*files_, folder_of(5));
  for (FileRecord& file : manifest.files) {
    auto bytes = files_->content(path(file.name));
    bytes[0] ^= std::byte{1};  // Of the HDF5 signature.
    file.hash = hash_of(bytes);
    files_->set_content(path(file.name), bytes);
  }
  const std::string text = to_text(manifest);
  const auto bytes = std::as_bytes(std::span(text));
  files_->set_content(path("MANIFEST.json"), {bytes.begin(), bytes.end()});
  EXPECT_EQ(damaged().size(), manifest.files.size());
  VerifyOptions without;
  without.structure = false;
  EXPECT_THAT(verify(*files_, folder_of(5), without).findings, IsEmpty());
  EXPECT_EQ(error_of_reading(), "") << "loading does not need the structure";
}

TEST_F(Damage, WhateverLatestSaysTheListingIsRight) {
  save_step(5, 0);
  save_step(6, 0);
  const auto store = make_hdf5_store(files_, "/store");
  for (const std::string text : {"step_000000000005\n", "step_000000000099\n", "", "\xff\xff",
                                 "../..", ".tmp-step_000000000007-0123456789abcdef\n"}) {
    const auto bytes = std::as_bytes(std::span(text));
    files_->set_content("/store/LATEST", {bytes.begin(), bytes.end()});
    const Listing listing = store->list();
    ASSERT_EQ(listing.steps.size(), 2u) << text;
    EXPECT_EQ(listing.steps.back().step, 6) << text;
    EXPECT_THAT(listing.damaged, IsEmpty()) << text;
  }
  files_->unlink("/store/LATEST");
  EXPECT_EQ(store->list().steps.back().step, 6);
  save_step(7, 0);
  EXPECT_EQ(torture::latest(*files_, "/store"), "7");
}

}  // namespace
}  // namespace zero::checkpoint
