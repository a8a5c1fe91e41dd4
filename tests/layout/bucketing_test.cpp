#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libzero/layout/layout.h"

namespace zero {
namespace {

using ::testing::ElementsAre;

ParameterSpec spec(std::string name, std::vector<std::int64_t> shape,
                   DType dtype = DType::kFloat32) {
  return {.name = std::move(name), .shape = std::move(shape), .dtype = dtype};
}

LayoutOptions caps(std::int64_t first, std::int64_t later) {
  return {.bucket_bytes = later, .first_bucket_bytes = first, .shard_alignment = 1};
}

TEST(Bucketing, ReverseRegistrationOrderAtMultiplesOf64) {
  const Layout layout({spec("a", {3}), spec("b", {65}), spec("c", {})}, {});
  ASSERT_EQ(layout.buckets().size(), 1u);
  EXPECT_THAT(layout.buckets()[0].parameters, ElementsAre(2, 1, 0));
  EXPECT_EQ(layout.slot(2).offset, 0);
  EXPECT_EQ(layout.slot(2).numel, 1);
  EXPECT_EQ(layout.slot(1).offset, 64);
  EXPECT_EQ(layout.slot(0).offset, 192);
  EXPECT_EQ(layout.buckets()[0].numel, 195);
}

TEST(Bucketing, ABucketMayBeFilledToItsCapButNotBeyond) {
  // 64 + 64 float32 elements are 512 bytes.
  EXPECT_EQ(Layout({spec("a", {64}), spec("b", {64})}, caps(512, 512)).buckets().size(), 1u);
  EXPECT_EQ(Layout({spec("a", {64}), spec("b", {64})}, caps(511, 512)).buckets().size(), 2u);
  // The hole between them counts: 64 + 1 elements are 260 bytes.
  EXPECT_EQ(Layout({spec("a", {1}), spec("b", {1})}, caps(260, 1)).buckets().size(), 1u);
  EXPECT_EQ(Layout({spec("a", {1}), spec("b", {1})}, caps(259, 1)).buckets().size(), 2u);
}

TEST(Bucketing, CapsAreBytesOfTheParametersOwnDtype) {
  const auto half = DType::kFloat16;
  EXPECT_EQ(Layout({spec("a", {64}, half), spec("b", {64}, half)}, caps(256, 1)).buckets().size(),
            1u);
  EXPECT_EQ(Layout({spec("a", {64}, half), spec("b", {64}, half)}, caps(255, 1)).buckets().size(),
            2u);
}

TEST(Bucketing, TheFirstCapHoldsForTheFirstBucketOfEachDtype) {
  const auto bf16 = DType::kBFloat16;
  const Layout layout({spec("a", {64}), spec("b", {64}), spec("c", {64}), spec("d", {64}, bf16),
                       spec("e", {64}, bf16), spec("f", {64}, bf16)},
                      caps(1, 1 << 20));
  ASSERT_EQ(layout.buckets().size(), 4u);
  EXPECT_THAT(layout.buckets()[0].parameters, ElementsAre(5));
  EXPECT_THAT(layout.buckets()[1].parameters, ElementsAre(4, 3));
  EXPECT_THAT(layout.buckets()[2].parameters, ElementsAre(2));
  EXPECT_THAT(layout.buckets()[3].parameters, ElementsAre(1, 0));
}

TEST(Bucketing, AParameterBeyondTheCapHasABucketOfItsOwn) {
  const Layout layout({spec("a", {8}), spec("big", {1000}), spec("c", {8})}, caps(400, 400));
  ASSERT_EQ(layout.buckets().size(), 3u);
  EXPECT_THAT(layout.buckets()[1].parameters, ElementsAre(1));
  EXPECT_EQ(layout.buckets()[1].numel, 1000);
  EXPECT_EQ(layout.slot(0).offset, 0);
}

TEST(Bucketing, BucketsOfSeveralDtypesAreOrderedByTheirLatestParameter) {
  const auto bf16 = DType::kBFloat16;
  const auto fp16 = DType::kFloat16;
  const Layout layout({spec("a", {3}, fp16), spec("b", {2}), spec("c", {1}, bf16), spec("d", {2})},
                      {});
  ASSERT_EQ(layout.buckets().size(), 3u);
  EXPECT_EQ(layout.buckets()[0].dtype, DType::kFloat32);
  EXPECT_THAT(layout.buckets()[0].parameters, ElementsAre(3, 1));
  EXPECT_EQ(layout.buckets()[1].dtype, bf16);
  EXPECT_EQ(layout.buckets()[2].dtype, fp16);
}

TEST(Bucketing, ZeroSizeParametersHaveASlotAndKeepTheirShape) {
  const Layout layout({spec("a", {4}), spec("empty", {0, 8}), spec("b", {4})}, {});
  EXPECT_EQ(layout.slot(1).bucket, 0);
  EXPECT_EQ(layout.slot(1).numel, 0);
  EXPECT_EQ(layout.slot(0).offset, 64);
  EXPECT_THAT(layout.parameters()[1].shape, ElementsAre(0, 8));
  EXPECT_EQ(layout.extents(0, 1).size(), 2u);
}

TEST(Bucketing, AModelOfZeroSizeParametersOnlyHasAnEmptyBucket) {
  const Layout layout({spec("empty", {0})}, {});
  ASSERT_EQ(layout.buckets().size(), 1u);
  EXPECT_EQ(layout.buckets()[0].numel, 0);
  EXPECT_EQ(layout.padded_shard_numel(0, 4), 0);
  EXPECT_EQ(layout.shard(0, 3, 4), (Interval{0, 0}));
  EXPECT_TRUE(layout.extents(0, 4).empty());
}

TEST(Bucketing, FrozenParametersAreNeitherLaidOutNorAHole) {
  ParameterSpec frozen = spec("frozen", {100});
  frozen.trainable = false;
  const Layout layout({spec("a", {64}), frozen, spec("b", {64})}, {});
  EXPECT_EQ(layout.slot(1).bucket, -1);
  EXPECT_EQ(layout.slot(1).numel, 100);
  EXPECT_EQ(layout.slot(0).offset, 64);
}

TEST(Bucketing, NothingTrainableMeansNoBuckets) {
  ParameterSpec frozen = spec("frozen", {100}, DType::kInt64);
  frozen.trainable = false;
  const Layout layout({frozen}, {});
  EXPECT_TRUE(layout.buckets().empty());
  EXPECT_TRUE(layout.extents(0, 2).empty());
  EXPECT_TRUE(Layout({}, {}).buckets().empty());
}

TEST(Bucketing, ATiedWeightIsLaidOutOnceAtItsOwnersSlot) {
  ParameterSpec head = spec("head", {2});
  head.alias_of = 0;
  const Layout layout({spec("embedding", {2}), spec("x", {1}), head}, {});
  EXPECT_THAT(layout.buckets()[0].parameters, ElementsAre(1, 0));
  EXPECT_EQ(layout.slot(2).bucket, 0);
  EXPECT_EQ(layout.slot(2).offset, layout.slot(0).offset);
}

TEST(Bucketing, ParametersOf2To62ElementsDoNotOverflow) {
  const std::int64_t huge = std::int64_t{1} << 62;
  const Layout layout(
      {spec("a", {huge}), spec("b", {huge})},
      caps(std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::max()));
  ASSERT_EQ(layout.buckets().size(), 2u);
  EXPECT_EQ(layout.shard(0, 1, 2), (Interval{huge / 2, huge}));
}

}  // namespace
}  // namespace zero
