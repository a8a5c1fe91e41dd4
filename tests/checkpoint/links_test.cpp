#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>

#include "checkpoint/hdf5_store.h"
#include "checkpoint/inspect.h"
#include "checkpoint/names.h"
#include "checkpoint/tools/export.h"
#include "checkpoint/tools/safetensors.h"
#include "checkpoint/verify.h"
#include "sample.h"
#include "tests/temporary_folder.h"

namespace zero::checkpoint {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using zero::testing::TemporaryFolder;

namespace fs = std::filesystem;

/// Puts the file among blobs, and a relative link in its place: a cache of downloads looks so.
void move_to_blobs(const fs::path& file) {
  const fs::path name = "blob-of-" + file.filename().string();
  fs::create_directories(file.parent_path() / "../blobs");
  fs::rename(file, file.parent_path() / "../blobs" / name);
  fs::create_symlink(fs::path("../blobs") / name, file);
}

class Links : public ::testing::Test {
 protected:
  Links() : files_(on_disk()) {
    fs::create_directory(folder_ / "snapshot");
    const auto store = make_hdf5_store(files_, folder_ / "root");
    save(*store, 1, 2);
    step_ = folder_ / "root/" + step_name(1);
  }

  /// The paths of what was written.
  std::vector<std::string> export_weights(std::uint64_t max_shard) {
    ExportOptions options;
    options.max_shard = max_shard;
    const auto reader = open_checkpoint(files_, step_);
    return export_parameters(*reader, *files_, folder_ / "snapshot/model.safetensors", options)
        .files;
  }

  TemporaryFolder folder_;
  std::shared_ptr<FileSystem> files_;
  std::string step_;
};

TEST_F(Links, WeightsThatAPersonNamesAreReadThroughThem) {
  const std::string file = export_weights(0).at(0);
  const auto names = SafetensorsWeights(*files_, file).names();
  move_to_blobs(file);
  EXPECT_EQ(SafetensorsWeights(*files_, file).names(), names);
  EXPECT_EQ(SafetensorsFile(*files_, file).entries().size(), names.size());
}

TEST_F(Links, AnIndexAndItsPartsAreReadThroughThemAndPartsLieBesideTheIndexsLink) {
  const std::vector<std::string> written = export_weights(64);
  ASSERT_GT(written.size(), 3u);
  const auto names = SafetensorsWeights(*files_, written.back()).names();
  for (const std::string& file : written) move_to_blobs(file);
  EXPECT_EQ(SafetensorsWeights(*files_, written.back()).names(), names);
}

TEST_F(Links, ThatLeadNowhereOrInACircleOrToSomethingElseAreErrorsThatNameThem) {
  const auto error_of = [&](const std::string& path) -> std::string {
    try {
      SafetensorsFile(*files_, path);
    } catch (const FileError& error) {
      EXPECT_THAT(error.what(), HasSubstr(path));
      return std::to_string(error.code());
    }
    return "read";
  };
  const std::string path = folder_ / "snapshot/x.safetensors";
  fs::create_symlink("nowhere", path);
  EXPECT_EQ(error_of(path), std::to_string(ENOENT));
  fs::remove(path);
  fs::create_symlink("x.safetensors", path);
  EXPECT_EQ(error_of(path), std::to_string(ELOOP));
  fs::remove(path);
  fs::create_symlink("/dev/zero", path);
  EXPECT_EQ(error_of(path), std::to_string(EINVAL));
}

TEST_F(Links, InThePlaceOfACheckpointsFilesAreDamage) {
  for (const std::string name : {"MANIFEST.json", "common.h5", "shard-00001-of-00002.h5"}) {
    const std::string file = join_path(step_, name);
    const std::string aside = folder_ / name;
    fs::rename(file, aside);
    fs::create_symlink(aside, file);
    EXPECT_THROW(open_checkpoint(files_, step_), FormatError) << name;
    EXPECT_THROW(inspect(*files_, step_), FormatError) << name;
    EXPECT_THAT(verify(*files_, step_).findings, Contains(::testing::Field(&Finding::file, name)));
    EXPECT_THROW(files_->open(file), FileError) << name;
    fs::remove(file);
    fs::rename(aside, file);
  }
  EXPECT_EQ(verify(*files_, step_).findings.size(), 0u);
}

TEST_F(Links, ADirectoryOfCheckpointsMayBeOne) {
  fs::create_directory_symlink(folder_ / "root", folder_ / "link");
  const std::string step = folder_ / "link/" + step_name(1);
  EXPECT_EQ(difference(*open_checkpoint(files_, step), 1, 2), "");
}

}  // namespace
}  // namespace zero::checkpoint
