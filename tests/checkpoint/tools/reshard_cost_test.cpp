// What resharding costs: bytes read, memory, time to plan.

#include <gtest/gtest.h>
#include <malloc.h>

#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "checkpoint/hdf5_store.h"
#include "checkpoint/memory_store.h"
#include "checkpoint/names.h"
#include "checkpoint/testing/memory_file_system.h"
#include "checkpoint/tools/diff.h"
#include "checkpoint/tools/reshard.h"
#include "checkpoint/tools/reshard_plan.h"
#include "counting_file_system.h"
#include "model.h"
#include "tests/checkpoint/reader_decorator.h"

namespace zero::checkpoint {
namespace {

ReshardOptions to_ranks(int world_size, std::uint64_t memory) {
  ReshardOptions options;
  options.world_size = world_size;
  options.memory = memory;
  return options;
}

/// Another reader, with the largest read noted.
class MeasuringReader : public testing::ReaderDecorator {
 public:
  using ReaderDecorator::ReaderDecorator;
  std::size_t largest() const { return largest_; }

  void read(std::int32_t parameter, std::string_view state, std::int64_t begin, std::int64_t end,
            std::span<std::byte> dst) const override {
    largest_ = std::max(largest_, dst.size());
    ReaderDecorator::read(parameter, state, begin, end, dst);
  }

 private:
  mutable std::size_t largest_ = 0;
};

/// Many buckets for each block and many blocks for each shard: the case in which each rank of
/// either world needs a slice of nearly every block.
Model entangled_model() {
  return make_model(std::vector<std::int64_t>(60, 997), {4096, 1024, 16}, false);
}

// Once to check, once to copy, whatever the worlds.
TEST(ReshardCost, EachByteIsReadTwice) {
  const Model model = entangled_model();
  for (const auto& [from, to] : {std::pair{1, 16}, std::pair{16, 1}, std::pair{16, 12},
                                 std::pair{12, 16}, std::pair{3, 4}}) {
    const auto files = std::make_shared<testing::CountingFileSystem>(
        std::make_shared<testing::MemoryFileSystem>());
    Hdf5StoreOptions options;
    options.block_bytes = 16384;
    const auto source = make_hdf5_store(files, "/source", options);
    save_as_trainer(*source, model, from);
    const auto destination = make_memory_store();
    const auto reader = source->open(7);
    const std::uint64_t before = files->bytes_read();
    reshard(*reader, *destination, to_ranks(to, 1 << 20));
    const double times =
        static_cast<double>(files->bytes_read() - before) / static_cast<double>(60 * 997 * 12);
    EXPECT_LT(times, 2.2) << from << " -> " << to;
    EXPECT_GT(times, 1.0) << from << " -> " << to;
  }
}

TEST(ReshardCost, ComparingReadsEachByteTwiceAtMost) {
  const Model model = entangled_model();
  const auto files =
      std::make_shared<testing::CountingFileSystem>(std::make_shared<testing::MemoryFileSystem>());
  Hdf5StoreOptions options;
  options.block_bytes = 16384;
  const auto one = make_hdf5_store(files, "/one", options);
  const auto many = make_hdf5_store(files, "/many", options);
  save_as_trainer(*one, model, 1);
  save_as_trainer(*many, model, 16);
  const auto a = one->open(7), b = many->open(7);
  const std::uint64_t before = files->bytes_read();
  EXPECT_TRUE(diff(*a, *b).empty());
  const double times =
      static_cast<double>(files->bytes_read() - before) / static_cast<double>(2 * 60 * 997 * 12);
  EXPECT_LT(times, 2.2);
}

TEST(ReshardCost, ReadsAreAsSmallAsTheMemoryWants) {
  const Model model = make_model({5'000'000}, {1 << 20, 1 << 20, 4096}, false);
  const auto source = make_memory_store();
  Model masters = model;
  masters.moments = masters.further_states = false;
  save_as_trainer(*source, masters, 1);
  const auto reader = source->open(7);
  for (const std::uint64_t memory : {1 << 20, 16 << 20, 1 << 30}) {
    const MeasuringReader measuring(*reader);
    const auto destination = make_memory_store();
    reshard(measuring, *destination, to_ranks(2, memory));
    EXPECT_LE(measuring.largest(), memory / 4);
    EXPECT_LE(measuring.largest(), std::size_t{8} << 20);
  }
}

/// Of this process, in KiB: "VmRSS", "VmHWM".
long memory_kib(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field + ":")) return std::atol(line.c_str() + field.size() + 1);
  }
  return 0;
}

class ReshardMemory : public ::testing::Test {
 protected:
  ReshardMemory()
      : path_(std::filesystem::temp_directory_path() /
              ("reshard-memory-" + std::to_string(::getpid()))) {
    std::filesystem::create_directory(path_);
  }
  ~ReshardMemory() override {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::unique_ptr<Store> store(const std::string& name) const {
    return make_hdf5_store(on_disk(), path_.string() + "/" + name);
  }

 private:
  std::filesystem::path path_;
};

TEST_F(ReshardMemory, IsBoundedWhateverTheCheckpointsSize) {
  if (ZERO_TEST_SLOWDOWN > 1) GTEST_SKIP() << "a sanitizer's own memory would be measured";
  constexpr std::int64_t kElements = std::int64_t{24} << 20;  // 96 MiB.
  CommonState common;
  common.groups.resize(1);
  common.parameters = {{"w", {kElements}}};
  const Ownership ownership(common, 2);
  const auto source = store("source");
  const auto writer = source->begin(common, 2);
  for (int rank = 0; rank < 2; ++rank) {
    const auto fill = [](const Extent& part, std::span<std::byte> dst) {
      std::fill(dst.begin(), dst.end(), static_cast<std::byte>(part.begin >> 16));
    };
    writer->put(rank, {{{"master", DType::kFloat32, ownership.trainable(rank), {}, fill}}, {}});
  }
  writer->commit();
  ::malloc_trim(0);                               // What earlier tests left free must not serve.
  std::ofstream("/proc/self/clear_refs") << "5";  // The peak starts anew.
  const long before = memory_kib("VmRSS");
  ASSERT_LT(memory_kib("VmHWM"), before + 1024) << "the kernel does not reset peaks";
  reshard(*source->open(0), *store("destination"), to_ranks(3, 64 << 20));
  EXPECT_TRUE(diff(*source->open(0), *store("destination")->open(0)).empty());
  const long peak = memory_kib("VmHWM") - before;
  std::cout << "peak " << peak << " KiB above idle\n";
  EXPECT_LT(peak, 40 * 1024);
}

TEST(ReshardCost, PlanningForManyParametersIsQuick) {
  Model model = make_model(std::vector<std::int64_t>(10'000, 64), {16384, 4096, 1}, false);
  model.further_states = false;
  const auto source = make_memory_store();
  save_as_trainer(*source, model, 64);
  const auto reader = source->open(7);
  const auto start = std::chrono::steady_clock::now();
  const std::clock_t cpu = std::clock();
  std::size_t extents = 0;
  const ReshardPlan plan(*reader, 48);
  for (int rank = 0; rank < 48; ++rank) {
    for (const StateView& view : plan.views(rank)) extents += view.extents.size();
  }
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
  std::cout << "10000 parameters, 64 -> 48 ranks: " << extents << " extents planned in "
            << time.count() << " ms, CPU "
            << 1e3 * static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC << " ms\n";
  EXPECT_GE(extents, 30'000u);
}

}  // namespace
}  // namespace zero::checkpoint
