#include "libzero/offload/offload_plan.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "libzero/base/error.h"
#include "tests/thrown.h"

namespace zero {
namespace {

constexpr std::array<bool, kOffloadedArrays> kMoments = {false, true, true};

TEST(OffloadPlan, ABlockIsWholePagesAndItsArraysBeginAtPages) {
  const OffloadSpan spans[] = {{0, 0, 0, 1025, kMoments}, {1, 0, 0, 10}};
  const OffloadPlan plan(spans, 1 << 20);
  ASSERT_EQ(plan.blocks().size(), 2u);
  const OffloadBlock& moments = plan.blocks()[0];
  EXPECT_EQ(moments.at, (std::array<std::int64_t, kOffloadedArrays>{-1, 0, 8192, -1}));
  EXPECT_EQ(moments.bytes, 4 * 4096);
  const OffloadBlock& all = plan.blocks()[1];
  EXPECT_EQ(all.at, (std::array<std::int64_t, kOffloadedArrays>{0, 4096, 8192, -1}));
  EXPECT_EQ(all.offset, moments.bytes);
  EXPECT_EQ(plan.file_bytes(), 7 * 4096);
  EXPECT_EQ(plan.largest_block(), 4 * 4096);
  EXPECT_EQ(plan.largest_array(), 2 * 4096);
}

TEST(OffloadPlan, BlocksOfASpanHaveAboutOneSize) {
  const OffloadSpan spans[] = {{0, 0, 0, 4097}};
  const OffloadPlan plan(spans, 4096);
  ASSERT_EQ(plan.blocks().size(), 2u);
  EXPECT_EQ(plan.blocks()[0].count, 3072);
  EXPECT_EQ(plan.blocks()[1].count, 1025);
}

TEST(OffloadPlan, RefusesWhatCannotBe) {
  const auto message = [](OffloadSpan span, std::int64_t elements) {
    return testing::thrown<ContractError>([&] { OffloadPlan({&span, 1}, elements); });
  };
  EXPECT_NE(message({0, 0, 5, 4}, 64).find("negative size: -1"), std::string::npos);
  EXPECT_NE(message({7, 0, 0, 4, {false, false, false}}, 64).find("bucket 7"), std::string::npos);
  EXPECT_NE(message({0, 0, 0, 4}, 0).find("needs elements"), std::string::npos);
}

TEST(OffloadPlan, SaysWhichElementNoBlockHolds) {
  const OffloadSpan spans[] = {{3, 0, 8, 16}};
  const OffloadPlan plan(spans, 64);
  EXPECT_EQ(plan.find(3, 8), 0u);
  EXPECT_EQ(plan.find(3, 15), 0u);
  for (const std::int64_t element : {7, 16}) {
    const std::string text = testing::thrown<ContractError>([&] { plan.find(3, element); });
    EXPECT_NE(text.find(std::to_string(element) + " of bucket 3"), std::string::npos);
  }
  testing::thrown<ContractError>([&] { plan.find(2, 8); });
}

RC_GTEST_PROP(OffloadPlan, EveryElementLiesInOneBlockAndNoTwoBlocksShareABytes, ()) {
  std::vector<OffloadSpan> spans;
  const auto buckets = *rc::gen::inRange(1, 5);
  for (int bucket = 0; bucket < buckets; ++bucket) {
    std::int64_t begin = 0;
    for (int piece = *rc::gen::inRange(0, 4); piece > 0; --piece) {
      const auto size = *rc::gen::inRange<std::int64_t>(0, 9000);
      spans.push_back(
          {bucket, piece, begin, begin + size, {*rc::gen::arbitrary<bool>(), true, true}});
      begin += size;
    }
  }
  const auto most = *rc::gen::inRange<std::int64_t>(1, 5000);
  const OffloadPlan plan(spans, most);
  std::int64_t elements = 0, offset = 0;
  for (std::size_t i = 0; i < plan.blocks().size(); ++i) {
    const OffloadBlock& block = plan.blocks()[i];
    RC_ASSERT(block.count > 0);
    RC_ASSERT(block.count <= (most + 1023) / 1024 * 1024);
    RC_ASSERT(block.offset == offset);
    RC_ASSERT(block.bytes % kPageBytes == 0);
    RC_ASSERT(plan.find(block.bucket, block.begin) == i);
    RC_ASSERT(plan.find(block.bucket, block.begin + block.count - 1) == i);
    elements += block.count;
    offset += block.bytes;
  }
  RC_ASSERT(plan.file_bytes() == offset);
  for (const OffloadSpan& span : spans) elements -= span.end - span.begin;
  RC_ASSERT(elements == 0);
}

}  // namespace
}  // namespace zero
