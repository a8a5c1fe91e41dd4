// view.h5: read through the HDF5 library on disk, checked by verify, needed by nobody.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "checkpoint/hdf5_store.h"
#include "checkpoint/manifest.h"
#include "checkpoint/names.h"
#include "checkpoint/testing/memory_file_system.h"
#include "checkpoint/verify.h"
#include "checkpoint/view_file.h"
#include "sample.h"
#include "tests/temporary_folder.h"
#include "weights.h"

namespace zero::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::MemoryFileSystem;
using ::testing::SizeIs;

/// A dataset's elements in its own type, and its shape. Empty bytes if it does not open.
std::pair<std::vector<std::byte>, std::vector<std::int64_t>> read_hdf5(const std::string& path,
                                                                       const std::string& name) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t dataset = H5Dopen2(file, name.c_str(), H5P_DEFAULT);
  if (dataset < 0) {
    H5Fclose(file);
    return {};
  }
  const hid_t type = H5Dget_type(dataset), space = H5Dget_space(dataset);
  std::vector<hsize_t> shape(static_cast<std::size_t>(H5Sget_simple_extent_ndims(space)));
  H5Sget_simple_extent_dims(space, shape.data(), nullptr);
  std::vector<std::byte> bytes(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)) *
                               H5Tget_size(type));
  EXPECT_GE(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()), 0) << name;
  H5Sclose(space);
  H5Tclose(type);
  H5Dclose(dataset);
  H5Fclose(file);
  return {bytes, {shape.begin(), shape.end()}};
}

std::vector<std::byte> read_whole(const Reader& reader, std::int32_t row,
                                  const std::string& state) {
  const std::int64_t n = reader.common().parameters[static_cast<std::size_t>(row)].numel();
  std::vector<std::byte> bytes(static_cast<std::size_t>(n * size_of(reader.dtype(row, state))));
  reader.read(row, state, 0, n, bytes);
  return bytes;
}

TEST(View, ShowsEveryStateOfEveryParameterWholeWithItsShape) {
  const zero::testing::TemporaryFolder folder;
  for (const int world_size : {1, 2, 3, 8}) {
    const auto store = make_hdf5_store(on_disk(), folder.path());
    EXPECT_THAT(save(*store, world_size, world_size).warnings, IsEmpty());
    const auto reader = store->open(world_size);
    const std::string view = folder.path() + "/" + step_name(world_size) + "/view.h5";
    const auto& parameters = reader->common().parameters;
    for (std::size_t row = 0; row < parameters.size(); ++row) {
      const auto parameter = static_cast<std::int32_t>(row);
      for (const std::string& state : reader->states(parameter)) {
        const std::string name = "/parameters/" + parameters[row].name + "/" + state;
        const auto [bytes, shape] = read_hdf5(view, name);
        EXPECT_EQ(bytes, read_whole(*reader, parameter, state)) << name;
        EXPECT_EQ(shape, parameters[row].shape) << name;
      }
    }
  }
}

TEST(View, OfAMissingShardShowsNanAndZero) {
  const zero::testing::TemporaryFolder folder;
  save(*make_hdf5_store(on_disk(), folder.path()), 1, 2);
  const std::string step = folder.path() + "/" + step_name(1);
  const auto [whole, shape] = read_hdf5(step + "/view.h5", "/parameters/embed.weight/master");
  std::filesystem::remove(step + "/" + shard_name(0, 2));
  const auto [rest, same] = read_hdf5(step + "/view.h5", "/parameters/embed.weight/master");
  const std::size_t half = 35 / 2 * 4;
  for (std::size_t i = 0; i < half; i += 4) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, rest.data() + i, 4);
    EXPECT_EQ(bits, 0x7fc00000u);
  }
  EXPECT_TRUE(std::equal(rest.begin() + half, rest.end(), whole.begin() + half));
  std::filesystem::remove(step + "/" + shard_name(1, 2));
  const auto [half_nan, shape16] = read_hdf5(step + "/view.h5", "/parameters/frozen/value");
  EXPECT_EQ(half_nan[1], std::byte{0x7e});
  const auto [zeros, shape64] = read_hdf5(step + "/view.h5", "/parameters/batches/value");
  EXPECT_EQ(zeros, std::vector<std::byte>(8));
}

class ViewFile : public ::testing::Test {
 protected:
  std::unique_ptr<Store> store(bool view = true) {
    Hdf5StoreOptions options;
    options.view = view;
    options.block_bytes = 64;
    options.new_attempt = [] { return "00000000000000aa"; };
    return make_hdf5_store(files_, "/store", options);
  }
  static std::string path(std::int64_t step, const std::string& name) {
    return "/store/" + step_name(step) + "/" + name;
  }
  std::vector<std::string> findings(std::int64_t step) {
    std::vector<std::string> result;
    for (const Finding& finding : verify(*files_, "/store/" + step_name(step)).findings) {
      result.push_back(to_text(finding));
    }
    return result;
  }
  Manifest manifest(std::int64_t step) {
    const auto bytes = files_->content(path(step, "MANIFEST.json"));
    return parse_manifest({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  /// Another view under a right hash.
  void replace_view(std::int64_t step, const std::vector<std::byte>& bytes,
                    std::optional<std::string> library = std::nullopt) {
    files_->set_content(path(step, "view.h5"), bytes);
    Manifest changed = manifest(step);
    changed.files.back().size = bytes.size();
    changed.files.back().hash = hash_of(bytes);
    if (library) changed.files.back().hdf5_version = *library;
    const std::string text = to_text(changed);
    const auto span = std::as_bytes(std::span(text));
    files_->set_content(path(step, "MANIFEST.json"), {span.begin(), span.end()});
  }

  std::shared_ptr<MemoryFileSystem> files_ = std::make_shared<MemoryFileSystem>();
};

TEST_F(ViewFile, IsListedWithItsHashAndHasTheSameBytesEachTime) {
  save(*store(), 1, 3);
  const auto first = files_->content(path(1, "view.h5"));
  const FileRecord record = manifest(1).files.back();
  EXPECT_EQ(record.name, "view.h5");
  EXPECT_EQ(record.hash, hash_of(first));
  EXPECT_THAT(record.datasets, IsEmpty());
  store()->remove(1);
  std::vector<std::vector<char>> noise;  // Other memory for the library to find.
  for (std::size_t i = 1; i < 2000; ++i) noise.emplace_back(i, 'x');
  noise.clear();
  save(*store(), 1, 3);
  EXPECT_EQ(files_->content(path(1, "view.h5")), first);
}

TEST_F(ViewFile, IsLeftOutWhenToldSo) {
  EXPECT_THAT(save(*store(false), 1, 2).warnings, IsEmpty());
  EXPECT_EQ(files_->status(path(1, "view.h5")).kind, FileKind::kMissing);
  EXPECT_THAT(findings(1), IsEmpty());
  EXPECT_EQ(difference(*store()->open(1), 1, 2), "");
}

TEST_F(ViewFile, IsNotNeededToLoadAndMissedByVerify) {
  save(*store(), 1, 2);
  files_->unlink(path(1, "view.h5"));
  EXPECT_THAT(store()->list().damaged, IsEmpty());
  EXPECT_EQ(difference(*store()->open(1), 1, 2), "");
  EXPECT_THAT(findings(1), ElementsAre("view.h5: the file is missing"));
}

TEST_F(ViewFile, AnyFlippedBitIsFound) {
  save(*store(), tiny_sample(1, 2));
  const auto original = files_->content(path(1, "view.h5"));
  for (std::size_t at = 0; at < original.size(); at += 13) {
    auto damaged = original;
    damaged[at] ^= static_cast<std::byte>(1 << (at % 8));
    files_->set_content(path(1, "view.h5"), damaged);
    ASSERT_THAT(findings(1), ElementsAre(HasSubstr("view.h5"))) << at;
  }
}

TEST_F(ViewFile, OfOtherMappingsIsFoundUnderARightHash) {
  save(*store(), 1, 2);
  const auto original = files_->content(path(1, "view.h5"));
  const std::string claim =
      "view.h5: its virtual datasets are not those that the shards' tables give";
  auto other = original;
  const std::string name = "shard-00001";
  auto at = std::search(other.begin(), other.end(), name.begin(), name.end(),
                        [](std::byte a, char b) { return static_cast<char>(a) == b; });
  ASSERT_NE(at, other.end());
  at[10] = std::byte{'0'};
  replace_view(1, other);
  EXPECT_THAT(findings(1), ElementsAre(claim));
  replace_view(1, {});
  EXPECT_THAT(findings(1), ElementsAre(claim));
  replace_view(1, files_->content(path(1, "common.h5")));
  EXPECT_THAT(findings(1), ElementsAre(claim));
  replace_view(1, original);
  EXPECT_THAT(findings(1), IsEmpty());
}

TEST_F(ViewFile, OfAnotherVersionOfTheLibraryIsCheckedByItsHashAlone) {
  save(*store(), 1, 2);
  const auto other = files_->content(path(1, "common.h5"));
  replace_view(1, other, "9.9.9");
  EXPECT_THAT(findings(1), IsEmpty());
  replace_view(1, other, "");
  EXPECT_THAT(findings(1), ElementsAre(HasSubstr("not those")));
  replace_view(1, other, manifest(1).files.back().hdf5_version + std::string(33, '1'));
  EXPECT_THAT(findings(1), ElementsAre(HasSubstr("'hdf5' is no text, or too long")));
}

TEST_F(ViewFile, OfTooManyParametersIsLeftOutWithAWarning) {
  Model model;
  for (std::size_t i = 0; i <= kMaxViewDatasets; ++i) {
    model.add("w" + std::to_string(i), {1}, DType::kFloat32, {1});
  }
  EXPECT_THAT(model.save(*store(), 1).warnings, ElementsAre(HasSubstr("no view.h5")));
  EXPECT_THAT(findings(9), IsEmpty());
  store()->remove(9);
  model.parameters.pop_back();
  EXPECT_THAT(model.save(*store(), 1).warnings, IsEmpty());
  EXPECT_THAT(findings(9), IsEmpty());
  EXPECT_EQ(files_->status(path(9, "view.h5")).kind, FileKind::kRegular);
}

TEST_F(ViewFile, OfTooManyPiecesIsLeftOutWithAWarning) {
  Model model;
  model.add("w", {20000, 2}, DType::kFloat32, std::vector<float>(40000));
  EXPECT_THAT(model.save(*store(), 2).warnings, IsEmpty());
  store()->remove(9);
  CommonState common;
  common.step = 9;
  common.parameters = model.parameters;
  common.groups = {{}};
  RankState state;
  state.states = {{"master", DType::kFloat32, {}, {}}};
  for (std::int64_t i = 0; i < 20000; ++i) {
    state.states[0].extents.push_back({0, 2 * i, 2 * i + 2});
    state.states[0].pieces.push_back(std::span(model.weights["w"]).first(8));
  }
  const auto writer = store()->begin(common, 1);
  writer->put(0, state);
  EXPECT_THAT(writer->commit().warnings, ElementsAre(HasSubstr("no view.h5")));
  EXPECT_THAT(findings(9), IsEmpty());
}

TEST_F(ViewFile, LeavesOutNamesThatHdf5HasNoPlaceForAndSaysSo) {
  Model model;
  for (const char* name :
       {"a", "a/master", "a/master/b", "a/b", ".", "c//d", "/e", "f/", "a/b/c"}) {
    model.add(name, {1}, DType::kFloat32, {1});
  }
  model.add_alias("tied", ".");
  model.add_alias("x/y", "a/b");
  model.add_alias("a/master/z", "a");
  const auto warnings = model.save(*store(), 1).warnings;
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("8, the first is 'a/master'")));
  EXPECT_THAT(findings(9), IsEmpty());
}

}  // namespace
}  // namespace zero::checkpoint
