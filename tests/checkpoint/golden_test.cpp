// Checkpoints of released versions load for ever.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "checkpoint/hdf5_store.h"
#include "checkpoint/names.h"
#include "checkpoint/testing/memory_file_system.h"
#include "checkpoint/verify.h"
#include "sample.h"

namespace zero::checkpoint {
namespace {

const std::string kGolden = std::string(ZERO_SOURCE_DIR) + "/tests/checkpoint/golden/v1.0";

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Golden : public ::testing::TestWithParam<int> {};

TEST_P(Golden, LoadsWithEveryBit) {
  const int world_size = GetParam();
  const std::string folder = kGolden + "/" + step_name(world_size);
  const auto files = on_disk();
  EXPECT_THAT(verify(*files, folder).findings, ::testing::IsEmpty());
  EXPECT_EQ(difference(*open_checkpoint(files, folder), world_size, world_size), "");
}

// May fail with another version of the HDF5 library: then only this test is to be changed, not the
// golden files.
TEST_P(Golden, IsWrittenAgainWithTheSameBytes) {
  const int world_size = GetParam();
  auto files = std::make_shared<testing::MemoryFileSystem>();
  Hdf5StoreOptions options;
  options.block_bytes = 64;
  options.writer = "libzero golden";
  options.view = false;  // There was none in 1.0.
  options.new_attempt = [&] { return "000000000000000" + std::to_string(world_size); };
  save(*make_hdf5_store(files, "/store", options), world_size, world_size);
  const std::string name = step_name(world_size);
  EXPECT_EQ(files->list("/store/" + name), on_disk()->list(kGolden + "/" + name));
  for (const std::string& file : files->list("/store/" + name)) {
    const auto bytes = files->content("/store/" + name + "/" + file);
    EXPECT_TRUE(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()) ==
                text_of(kGolden + "/" + name + "/" + file))
        << file;
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, Golden, ::testing::Values(1, 2, 3));

}  // namespace
}  // namespace zero::checkpoint
