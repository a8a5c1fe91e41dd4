#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libzero/base/error.h"
#include "libzero/layout/layout.h"

namespace zero {
namespace {

using ::testing::ElementsAre;

Layout one_parameter(std::int64_t numel, std::int64_t alignment) {
  return Layout({{.name = "w", .shape = {numel}}}, {.shard_alignment = alignment});
}

TEST(Sharding, MoreThan2To31ElementsAreCutExactly) {
  const Layout layout = one_parameter(2'238'382'272, 1);
  EXPECT_EQ(layout.shard(0, 0, 2), (Interval{0, 1'119'191'136}));
  EXPECT_EQ(layout.shard(0, 1, 2), (Interval{1'119'191'136, 2'238'382'272}));
  EXPECT_THAT(layout.extents(1, 2), ElementsAre(Extent{0, 1'119'191'136, 2'238'382'272}));
}

TEST(Sharding, MoreThan2To31ElementsAreCutAtBlocks) {
  const Layout layout = one_parameter(2'238'382'272, 4096);
  // 546480.04.. blocks: ceil(546481 / 2) * 4096.
  EXPECT_EQ(layout.padded_shard_numel(0, 2), 273'241 * std::int64_t{4096});
  EXPECT_EQ(layout.shard(0, 1, 2), (Interval{273'241 * std::int64_t{4096}, 2'238'382'272}));
}

TEST(Sharding, AModelSmallerThanTheWorldLeavesRanksEmpty) {
  const Layout fine = one_parameter(2, 1);
  EXPECT_EQ(fine.padded_shard_numel(0, 4), 1);
  EXPECT_EQ(fine.shard(0, 0, 4), (Interval{0, 1}));
  EXPECT_EQ(fine.shard(0, 1, 4), (Interval{1, 2}));
  EXPECT_EQ(fine.shard(0, 2, 4), (Interval{2, 2}));
  EXPECT_EQ(fine.shard(0, 3, 4), (Interval{2, 2}));
  EXPECT_TRUE(fine.extents(3, 4).empty());

  const Layout coarse = one_parameter(2, 4096);
  EXPECT_EQ(coarse.padded_shard_numel(0, 4), 4096);
  EXPECT_EQ(coarse.shard(0, 0, 4), (Interval{0, 2}));
  EXPECT_EQ(coarse.shard(0, 1, 4), (Interval{2, 2}));
}

TEST(Sharding, TenElementsOverFourAndThreeRanks) {
  const Layout layout = one_parameter(10, 1);
  EXPECT_EQ(layout.shard(0, 0, 4), (Interval{0, 3}));
  EXPECT_EQ(layout.shard(0, 1, 4), (Interval{3, 6}));
  EXPECT_EQ(layout.shard(0, 2, 4), (Interval{6, 9}));
  EXPECT_EQ(layout.shard(0, 3, 4), (Interval{9, 10}));
  EXPECT_EQ(layout.shard(0, 0, 3), (Interval{0, 4}));
  EXPECT_EQ(layout.shard(0, 1, 3), (Interval{4, 8}));
  EXPECT_EQ(layout.shard(0, 2, 3), (Interval{8, 10}));
}

TEST(Sharding, HugeWorldsAndAlignmentsDoNotOverflow) {
  const Layout layout = one_parameter(std::int64_t{1} << 62, kMaxShardAlignment);
  const int world_size = std::numeric_limits<int>::max();
  const std::int64_t padded = layout.padded_shard_numel(0, world_size);
  EXPECT_EQ(padded, 2 * kMaxShardAlignment);  // 2^31 blocks over 2^31 - 1 ranks.
  EXPECT_EQ(layout.shard(0, world_size - 1, world_size).size(), 0);
  EXPECT_EQ(layout.shard(0, 1, world_size), (Interval{padded, 2 * padded}));
}

TEST(Sharding, AParameterMayStraddleRanksAndHolesBelongToNobody) {
  const Layout layout({{.name = "a", .shape = {70}}, {.name = "b", .shape = {100}}},
                      {.shard_alignment = 1});
  // Flat: b at 0..100, hole to 128, a at 128..198; two shards of 99.
  EXPECT_THAT(layout.extents(0, 2), ElementsAre(Extent{1, 0, 99}));
  EXPECT_THAT(layout.extents(1, 2), ElementsAre(Extent{0, 0, 70}, Extent{1, 99, 100}));
}

TEST(Sharding, ArgumentsOutOfRangeAreRefused) {
  const Layout layout = one_parameter(8, 1);
  EXPECT_THROW(layout.slot(1), ContractError);
  EXPECT_THROW(layout.slot(-1), ContractError);
  EXPECT_THROW(layout.shard(1, 0, 1), ContractError);
  EXPECT_THROW(layout.shard(-1, 0, 1), ContractError);
  EXPECT_THROW(layout.shard(0, 2, 2), ContractError);
  EXPECT_THROW(layout.shard(0, -1, 2), ContractError);
  EXPECT_THROW(layout.shard(0, 0, 0), ContractError);
  EXPECT_THROW(layout.padded_shard_numel(0, 0), ContractError);
  EXPECT_THROW(layout.extents(0, -1), ContractError);
  EXPECT_THROW(layout.segments(0, {2, 1}), ContractError);
  EXPECT_THROW(layout.segments(0, {-1, 1}), ContractError);
}

}  // namespace
}  // namespace zero
