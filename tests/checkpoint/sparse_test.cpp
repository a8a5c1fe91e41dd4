// Files of a few blocks that claim to be terabytes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "checkpoint/file_reader.h"
#include "checkpoint/hdf5_store.h"
#include "checkpoint/inspect.h"
#include "checkpoint/names.h"
#include "checkpoint/verify.h"
#include "sample.h"
#include "tests/temporary_folder.h"

namespace zero::checkpoint {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kHuge = std::uint64_t{1} << 40;

class Sparse : public ::testing::Test {
 protected:
  Sparse() {
    Hdf5StoreOptions options;
    options.block_bytes = 64;
    options.view = false;
    save(*make_hdf5_store(files_, folder_ / "root", options), 1, 1);
    step_ = folder_ / "root/" + step_name(1);
    manifest_ = read_manifest(*files_, step_);
  }

  /// Makes the dataset huge, in a hole behind all others; true if there is one of this ending.
  bool inflate(FileRecord& file, const std::string& ending) {
    for (DatasetRecord& dataset : file.datasets) {
      if (!dataset.name.ends_with(ending)) continue;
      DatasetRecord huge = dataset;
      std::int64_t row = huge.type.width;
      for (std::size_t i = 1; i < huge.shape.size(); ++i) row *= huge.shape[i];
      huge.shape[0] = static_cast<std::int64_t>(kHuge) / row;
      huge.bytes = static_cast<std::uint64_t>(huge.shape[0] * row);
      huge.offset = file.size;
      file.size += huge.bytes;
      std::erase(file.datasets, DatasetRecord(dataset));
      file.datasets.push_back(huge);
      std::filesystem::resize_file(join_path(step_, file.name), file.size);
      std::ofstream(join_path(step_, kManifestName), std::ios::trunc) << to_text(manifest_);
      return true;
    }
    return false;
  }

  template <class Call>
  std::string error_of(Call call) {
    try {
      call();
    } catch (const FormatError& error) {
      return error.what();
    }
    return "no error";
  }

  zero::testing::TemporaryFolder folder_;
  std::shared_ptr<FileSystem> files_ = on_disk();
  std::string step_;
  Manifest manifest_;
};

TEST_F(Sparse, TablesAreRefusedBeforeTheirMemoryIsTaken) {
  ASSERT_TRUE(inflate(manifest_.files[1], "/exp_avg/float32/extents"));
  EXPECT_THAT(error_of([&] { open_checkpoint(files_, step_); }), HasSubstr("/extents"));
  EXPECT_THAT(error_of([&] { inspect(*files_, step_); }), HasSubstr("sparse"));
  const auto findings = verify(*files_, step_, {true, {}, true}).findings;
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_THAT(findings[0].problem, HasSubstr("sparse"));
}

TEST_F(Sparse, BlobsAreRefusedBeforeTheirMemoryIsTaken) {
  ASSERT_TRUE(inflate(manifest_.files[0], "/blobs/shared/schedule"));
  EXPECT_THAT(error_of([&] { open_checkpoint(files_, step_); }), HasSubstr("schedule"));
}

TEST_F(Sparse, HashesOfBlocksAreRefusedBeforeTheirMemoryIsTaken) {
  ASSERT_TRUE(inflate(manifest_.files[1], "/exp_avg/float32/blocks"));
  const auto findings = verify(*files_, step_).findings;
  ASSERT_FALSE(findings.empty());
  EXPECT_THAT(findings[0].problem, HasSubstr("sparse"));
}

/// Holes are no reason as long as enough is stored, and small tables may be all holes.
TEST_F(Sparse, ATableMayHaveHoles) {
  const std::string path = folder_ / "file";
  const std::uint64_t size = 2 * kSmallTableBytes;
  const auto stores = [&](std::uint64_t bytes) {
    std::ofstream(path, std::ios::trunc) << std::string(bytes, 'x');
    std::filesystem::resize_file(path, size);
    DatasetRecord record;
    record.bytes = size;
    return error_of([&] { require_stored(*files_->open(path), path, record); });
  };
  EXPECT_EQ(stores(size / kMostSparse), "no error");
  EXPECT_THAT(stores(size / kMostSparse / 2), HasSubstr("sparse"));
  DatasetRecord small;
  small.bytes = kSmallTableBytes;
  EXPECT_EQ(error_of([&] { require_stored(*files_->open(path), path, small); }), "no error");
}

}  // namespace
}  // namespace zero::checkpoint
