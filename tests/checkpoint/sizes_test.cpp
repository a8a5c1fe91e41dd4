// Pieces, datasets, blocks and buffers of every size relative to each other.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>

#include "checkpoint/hdf5_store.h"
#include "checkpoint/testing/memory_file_system.h"
#include "checkpoint/verify.h"

namespace zero::checkpoint {
namespace {

/// Saves parameters of the given sizes from `world_size` ranks and reads them back whole and in
/// parts.
void expect_round_trip(const std::vector<std::int64_t>& sizes, int world_size,
                       std::uint64_t block_bytes) {
  CommonState common;
  common.groups.resize(1);
  std::vector<std::vector<std::uint32_t>> values;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    common.parameters.push_back({"p" + std::to_string(i), {sizes[i]}});
    auto& numbers = values.emplace_back(static_cast<std::size_t>(sizes[i]));
    std::iota(numbers.begin(), numbers.end(), static_cast<std::uint32_t>(i) << 26);
  }
  auto files = std::make_shared<testing::MemoryFileSystem>();
  Hdf5StoreOptions options;
  options.block_bytes = block_bytes;
  const auto store = make_hdf5_store(files, "/store", options);
  const auto writer = store->begin(common, world_size);
  for (int rank = 0; rank < world_size; ++rank) {
    RankState state;
    for (const char* name : {"exp_avg", "master"}) {
      StateView& view = state.states.emplace_back();
      view.name = name;
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        const Extent extent{static_cast<std::int32_t>(i), sizes[i] * rank / world_size,
                            sizes[i] * (rank + 1) / world_size};
        if (extent.begin == extent.end) continue;
        view.extents.push_back(extent);
        view.pieces.push_back(std::as_bytes(
            std::span(values[i]).subspan(static_cast<std::size_t>(extent.begin),
                                         static_cast<std::size_t>(extent.end - extent.begin))));
      }
    }
    writer->put(rank, state);
  }
  writer->commit();
  for (const Finding& finding : verify(*files, "/store/step_000000000000").findings) {
    ADD_FAILURE() << to_text(finding);
  }
  const auto reader = store->open(0);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::int64_t third = sizes[i] / 3;
    for (const auto& [begin, end] :
         {std::pair{std::int64_t{0}, sizes[i]}, std::pair{third, 2 * third + 1}}) {
      if (begin >= end || end > sizes[i]) continue;
      std::vector<std::uint32_t> got(static_cast<std::size_t>(end - begin));
      reader->read(static_cast<std::int32_t>(i), "master", begin, end,
                   std::as_writable_bytes(std::span(got)));
      ASSERT_TRUE(std::equal(got.begin(), got.end(), values[i].begin() + begin)) << sizes[i];
    }
  }
}

TEST(Sizes, AroundEveryThresholdRoundTrip) {
  // Elements of 4 bytes around 4 KiB (head, alignment), 64 KiB (alignment begins), 256 KiB (chunk),
  // 1 MiB (buffer).
  for (const std::int64_t threshold : {1024, 16384, 65536, 262144}) {
    for (const std::int64_t size : {threshold - 1, threshold, threshold + 1}) {
      for (const std::uint64_t block_bytes : {4096, 65536, 8 << 20}) {
        expect_round_trip({size, 3, size}, 1, block_bytes);
      }
      expect_round_trip({size, 3, size}, 3, 65536);
    }
  }
}

TEST(Sizes, SeveralFullBlocksOfTheDefaultSizeRoundTrip) {
  expect_round_trip({5'000'000, 1, 777}, 1, 8 << 20);
}

TEST(Sizes, ManySmallParametersRoundTrip) {
  std::vector<std::int64_t> sizes(5000);
  for (std::size_t i = 0; i < sizes.size(); ++i) sizes[i] = static_cast<std::int64_t>(i % 7);
  expect_round_trip(sizes, 4, 4096);
}

TEST(Sizes, ManyBlobsCountersAndOptionsRoundTrip) {
  CommonState common;
  common.parameters = {{"empty", {0}}};
  common.groups.resize(1);
  RankState rank;
  for (int i = 0; i < 400; ++i) {
    const std::string key =
        std::string(static_cast<std::size_t>(i % 50) + 1, 'k') + std::to_string(i);
    common.blobs[key] = Blob(static_cast<std::size_t>(i * i % 70000));
    common.counters[key] = i;
    common.groups[0][key] = i;
    rank.blobs[key] = Blob(static_cast<std::size_t>(i), std::byte{7});
  }
  auto files = std::make_shared<testing::MemoryFileSystem>();
  const auto store = make_hdf5_store(files, "/store");
  const auto writer = store->begin(common, 1);
  writer->put(0, rank);
  writer->commit();
  for (const Finding& finding : verify(*files, "/store/step_000000000000").findings) {
    ADD_FAILURE() << to_text(finding);
  }
  const auto reader = store->open(0);
  EXPECT_EQ(reader->common().blobs, common.blobs);
  EXPECT_EQ(reader->common().counters, common.counters);
  EXPECT_EQ(reader->common().groups, common.groups);
  EXPECT_EQ(reader->rank_blobs(0), rank.blobs);
}

RC_GTEST_PROP(SizesProperty, AnyMixRoundTrips, ()) {
  const auto exponent = [] { return rc::gen::inRange(0, 18); };
  std::vector<std::int64_t> sizes;
  const int count = *rc::gen::inRange(1, 6);
  for (int i = 0; i < count; ++i) {
    const std::int64_t limit = std::int64_t{1} << *exponent();
    sizes.push_back(*rc::gen::inRange<std::int64_t>(0, limit + 1));
  }
  expect_round_trip(sizes, *rc::gen::inRange(1, 6), std::uint64_t{64} << *rc::gen::inRange(0, 12));
  RC_ASSERT(!::testing::Test::HasFailure());
}

}  // namespace
}  // namespace zero::checkpoint
