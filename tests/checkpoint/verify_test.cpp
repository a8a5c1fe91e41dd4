#include "checkpoint/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/hdf5_store.h"
#include "checkpoint/manifest.h"
#include "checkpoint/testing/memory_file_system.h"
#include "sample.h"

namespace zero::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const std::string kFolder = "/store/step_000000000005";

class Verify : public ::testing::Test {
 protected:
  Verify() { save(*store(), 5, 2); }

  std::unique_ptr<Store> store(std::uint64_t block_bytes = 64) {
    Hdf5StoreOptions options;
    options.block_bytes = block_bytes;
    return make_hdf5_store(files_, "/store", options);
  }
  std::vector<std::string> findings(bool quick = false) {
    std::vector<std::string> result;
    for (const Finding& finding : verify(*files_, kFolder, {quick, nullptr}).findings) {
      result.push_back(to_text(finding));
    }
    return result;
  }
  std::string path(const std::string& name) { return kFolder + "/" + name; }
  Manifest manifest() {
    const auto bytes = files_->content(path("MANIFEST.json"));
    return parse_manifest({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  void replace_manifest(const Manifest& manifest) {
    const std::string text = to_text(manifest);
    const auto bytes = std::as_bytes(std::span(text));
    files_->set_content(path("MANIFEST.json"), {bytes.begin(), bytes.end()});
  }

  std::shared_ptr<testing::MemoryFileSystem> files_ = std::make_shared<testing::MemoryFileSystem>();
};

TEST_F(Verify, AWholeCheckpointHasNoFindingsAndEveryByteIsHashed) {
  std::uint64_t last = 0, total = 0;
  const Verification result = verify(*files_, kFolder, {false, [&](auto done, auto all) {
                                                          last = done;
                                                          total = all;
                                                          return true;
                                                        }});
  EXPECT_THAT(result.findings, IsEmpty());
  EXPECT_EQ(result.bytes, manifest().bytes());
  EXPECT_EQ(last, result.bytes);
  EXPECT_EQ(total, result.bytes);
  EXPECT_THAT(findings(true), IsEmpty());
  EXPECT_THAT(verify(*files_, kFolder + "/").findings, IsEmpty());
}

TEST_F(Verify, StopsWhenToldTo) {
  const auto result = verify(*files_, kFolder, {false, [](auto, auto) { return false; }});
  EXPECT_TRUE(result.stopped);
}

TEST_F(Verify, FindsAFlippedBitInEveryByteOfEveryFileAndNamesThePlace) {
  // Small, for there is a verification of everything for each byte; several blocks, nevertheless.
  store()->remove(5);
  save(*store(), tiny_sample(5, 2));
  const Manifest whole = manifest();
  int flips = 0;
  for (const std::string& name : files_->list(kFolder)) {
    const std::vector<std::byte> original = files_->content(path(name));
    for (std::size_t at = 0; at < original.size(); ++at) {
      std::vector<std::byte> damaged = original;
      damaged[at] ^= static_cast<std::byte>(1 << (at * 5 % 8));
      files_->set_content(path(name), std::move(damaged));
      const Verification result = verify(*files_, kFolder);
      ++flips;
      ASSERT_FALSE(result.findings.empty()) << name << " byte " << at;
      ASSERT_EQ(result.findings[0].file, name) << "byte " << at;
      for (const FileRecord& file : whole.files) {
        if (file.name != name) continue;
        for (const DatasetRecord& dataset : file.datasets) {
          if (at < dataset.offset || at >= dataset.offset + dataset.bytes) continue;
          ASSERT_EQ(result.findings[0].dataset, dataset.name) << "byte " << at;
          if (!dataset.name.ends_with("/data")) continue;
          ASSERT_EQ(result.findings[0].block, static_cast<std::int64_t>(at - dataset.offset) / 64);
        }
      }
    }
    files_->set_content(path(name), original);
  }
  EXPECT_GT(flips, 10000);
  EXPECT_THAT(findings(), IsEmpty());
}

TEST_F(Verify, FindsDamageInTheGapsBetweenObjects) {
  Sample sample(6, 1);
  sample.common().blobs["large"] = Blob(70000);
  save(*store(), sample);
  const std::string folder = "/store/step_000000000006/";
  auto bytes = files_->content(folder + "MANIFEST.json");
  const Manifest large =
      parse_manifest({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  const std::uint64_t offset = large.common().find("/blobs/shared/large")->offset;
  EXPECT_EQ(offset % 4096, 0u);
  bytes = files_->content(folder + "common.h5");
  ASSERT_EQ(bytes[offset - 1], std::byte{0});
  bytes[offset - 1] = std::byte{1};
  files_->set_content(folder + "common.h5", bytes);
  const Verification result = verify(*files_, folder);
  ASSERT_EQ(result.findings.size(), 1u);
  EXPECT_THAT(to_text(result.findings[0]), AllOf(HasSubstr("common.h5"), HasSubstr("outside")));
}

TEST_F(Verify, FindsTruncationAndGrowthOfEveryFile) {
  for (const std::string& name : files_->list(kFolder)) {
    const std::vector<std::byte> original = files_->content(path(name));
    for (std::size_t size = 0; size <= original.size() + 1;
         size += size + 64 < original.size() ? 61 : 1) {
      if (size == original.size()) continue;
      std::vector<std::byte> damaged = original;
      damaged.resize(size);
      files_->set_content(path(name), std::move(damaged));
      const Verification result = verify(*files_, kFolder, {true, nullptr});
      ASSERT_FALSE(result.findings.empty()) << name << " of size " << size;
      ASSERT_EQ(result.findings[0].file, name);
      if (name == "view.h5") {  // Nothing needs it to load.
        ASSERT_NO_THROW(open_checkpoint(files_, kFolder));
        continue;
      }
      ASSERT_THROW(open_checkpoint(files_, kFolder), FormatError) << name << " of size " << size;
    }
    files_->set_content(path(name), original);
  }
}

TEST_F(Verify, FindsZeroedPages) {
  const std::string name = path("shard-00001-of-00002.h5");
  const auto original = files_->content(name);
  for (std::size_t at = 0; at + 512 <= original.size(); at += 512) {
    auto damaged = original;
    std::fill_n(damaged.begin() + static_cast<std::ptrdiff_t>(at), 512, std::byte{});
    if (damaged == original) continue;
    files_->set_content(name, damaged);
    EXPECT_THAT(findings(), Not(IsEmpty())) << at;
  }
}

TEST_F(Verify, FindsMissingForeignAndSwappedFiles) {
  const auto shard0 = files_->content(path("shard-00000-of-00002.h5"));
  const auto shard1 = files_->content(path("shard-00001-of-00002.h5"));
  files_->set_content(path("shard-00000-of-00002.h5"), shard1);
  files_->set_content(path("shard-00001-of-00002.h5"), shard0);
  EXPECT_THAT(findings(), Not(IsEmpty()));
  files_->set_content(path("shard-00001-of-00002.h5"), shard1);
  files_->unlink(path("shard-00000-of-00002.h5"));
  EXPECT_THAT(findings(true), ElementsAre("shard-00000-of-00002.h5: the file is missing"));
  EXPECT_THAT(store()->list().damaged,
              ElementsAre(::testing::Field(&Damaged::problem, HasSubstr("missing"))));
  EXPECT_THROW(store()->open(5), FormatError);
  files_->make_directory(path("shard-00000-of-00002.h5"));
  EXPECT_THAT(findings(true), ElementsAre("shard-00000-of-00002.h5: it is no regular file"));
  files_->remove_directory(path("shard-00000-of-00002.h5"));
  files_->set_content(path("shard-00000-of-00002.h5"), shard0);
  files_->set_content(path("notes.txt"), {});
  EXPECT_THAT(findings(), ElementsAre("notes.txt: the manifest does not list this file"));
}

TEST_F(Verify, FindsAFileOfAnotherStepAndOfAnotherRun) {
  save(*store(), 6, 2);
  const std::string shard = "/shard-00001-of-00002.h5";
  const auto original = files_->content(kFolder + shard);
  files_->set_content(kFolder + shard, files_->content("/store/step_000000000006" + shard));
  EXPECT_THAT(findings(), Not(IsEmpty()));
  Sample other(7, 2);
  other.common().run_id = "another-run";
  save(*store(), other);
  files_->set_content(kFolder + shard, files_->content("/store/step_000000000007" + shard));
  EXPECT_THAT(findings(), Not(IsEmpty()));
  files_->set_content(kFolder + shard, original);
  EXPECT_THAT(findings(), IsEmpty());
}

TEST_F(Verify, FindsAManifestOfAnotherStep) {
  save(*store(), 6, 2);
  files_->set_content(path("MANIFEST.json"),
                      files_->content("/store/step_000000000006/MANIFEST.json"));
  EXPECT_THAT(findings(), Not(IsEmpty()));
  EXPECT_THROW(store()->open(5), FormatError);
  EXPECT_THAT(store()->list().damaged.size(), 1u);
  EXPECT_THAT(store()->list().steps.size(), 1u);
}

TEST_F(Verify, ACheckpointMayBeCopiedUnderAnyOtherName) {
  files_->rename_new(kFolder, "/best model");
  EXPECT_THAT(verify(*files_, "/best model").findings, IsEmpty());
  EXPECT_EQ(difference(*open_checkpoint(files_, "/best model"), 5, 2), "");
  files_->rename_new("/best model", "/store/step_000000000077");
  EXPECT_THAT(verify(*files_, "/store/step_000000000077").findings, Not(IsEmpty()));
}

TEST_F(Verify, MissingDirectoriesAndManifestsAreFindings) {
  EXPECT_THAT(verify(*files_, "/nowhere").findings, Not(IsEmpty()));
  files_->unlink(path("MANIFEST.json"));
  EXPECT_THAT(findings(), ElementsAre(HasSubstr("manifest is missing")));
}

TEST_F(Verify, ReadingADamagedBlockNamesItAndOtherBlocksStillRead) {
  const std::string name = "shard-00000-of-00002.h5";
  const DatasetRecord record = *manifest().shard(0).find("/states/master/float32/data");
  auto bytes = files_->content(path(name));
  bytes[record.offset + 70] ^= std::byte{1};
  files_->set_content(path(name), bytes);
  const auto reader = open_checkpoint(files_, kFolder);
  std::vector<std::byte> got(4);
  reader->read(0, "master", 0, 1, got);
  EXPECT_EQ(got, Sample::expected(5, "master", DType::kFloat32, {0, 0, 1}));
  for (int i = 0; i < 2; ++i) {
    try {
      reader->read(0, "master", 16, 17, got);
      FAIL() << "a damaged block was read";
    } catch (const FormatError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr(name), HasSubstr("/states/master/float32/data"),
                                      HasSubstr("block 1")));
    }
  }
}

// Whoever recomputes hashes can lie about everything that the hashes cover, but not about the
// structure.
TEST_F(Verify, FindsALieAboutTheStructureUnderRightHashes) {
  const auto lie = [&](auto change) {
    Manifest changed = manifest();
    const Manifest original = changed;
    change(changed);
    replace_manifest(changed);
    EXPECT_THAT(findings(), Not(IsEmpty()));
    replace_manifest(original);
  };
  lie([](Manifest& m) { m.run_id = "another"; });
  lie([](Manifest& m) { m.step = 6; });
  lie([](Manifest& m) { m.parameters = 7; });
  lie([](Manifest& m) { m.groups = 3; });
  lie([](Manifest& m) { m.block_bytes = 128; });
  lie([](Manifest& m) { m.files[1].datasets.pop_back(); });
  lie([](Manifest& m) { m.files[0].datasets.pop_back(); });
  lie([](Manifest& m) { std::swap(m.files[1].datasets, m.files[2].datasets); });
  EXPECT_THAT(findings(), IsEmpty());
}

}  // namespace
}  // namespace zero::checkpoint
