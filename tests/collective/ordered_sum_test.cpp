#include "libzero/collective/ordered_sum.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "libzero/base/error.h"
#include "libzero/base/float16.h"

namespace zero {
namespace {

using Bits16 = std::vector<std::uint16_t>;

template <typename Element>
std::vector<const void*> pointers(const std::vector<std::vector<Element>>& parts) {
  std::vector<const void*> result;
  for (const auto& part : parts) result.push_back(part.data());
  return result;
}

/// Equal bits, or both NaN: which NaN comes out of an addition is the processor's choice.
bool same(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

/// `ranks` parts of any bits at all, infinities and NaN included.
std::vector<Bits16> any_parts(std::size_t ranks, std::size_t count) {
  std::vector<Bits16> parts(ranks);
  for (auto& part : parts) {
    part = *rc::gen::container<Bits16>(count, rc::gen::arbitrary<std::uint16_t>());
  }
  return parts;
}

void check_against_the_formula(DType dtype, float (*widen)(std::uint16_t)) {
  const auto ranks = *rc::gen::inRange<std::size_t>(1, 6);
  const auto count = *rc::gen::inRange<std::size_t>(0, 70);
  const bool accumulate = *rc::gen::arbitrary<bool>();
  const auto parts = any_parts(ranks, count);
  const std::vector<float> start(count, 0.125f);
  std::vector<float> out = start;
  ordered_sum(pointers(parts), dtype, out.data(), static_cast<std::int64_t>(count), accumulate);
  for (std::size_t i = 0; i < count; ++i) {
    float expected = accumulate ? start[i] : 0.0f;
    for (const Bits16& part : parts) expected = expected + widen(part[i]);
    RC_ASSERT(same(out[i], expected));
  }
}

RC_GTEST_PROP(OrderedSum, FollowsTheFormulaForAnyBFloat16, ()) {
  check_against_the_formula(DType::kBFloat16, float_from_bfloat16);
}

RC_GTEST_PROP(OrderedSum, FollowsTheFormulaForAnyFloat16, ()) {
  check_against_the_formula(DType::kFloat16, float_from_float16);
}

RC_GTEST_PROP(OrderedSum, FollowsTheFormulaForAnyFloat32, ()) {
  const auto ranks = *rc::gen::inRange<std::size_t>(1, 6);
  const auto count = *rc::gen::inRange<std::size_t>(1, 40);
  std::vector<std::vector<float>> parts(ranks);
  for (auto& part : parts) {
    part = *rc::gen::container<std::vector<float>>(
        count, rc::gen::map(rc::gen::arbitrary<std::uint32_t>(),
                            [](std::uint32_t bits) { return std::bit_cast<float>(bits); }));
  }
  std::vector<float> out(count, 7.0f);
  ordered_sum(pointers(parts), DType::kFloat32, out.data(), static_cast<std::int64_t>(count),
              false);
  for (std::size_t i = 0; i < count; ++i) {
    float expected = 0.0f;
    for (const auto& part : parts) expected = expected + part[i];
    RC_ASSERT(same(out[i], expected));
  }
}

RC_GTEST_PROP(OrderedSum, SegmentsGiveTheSameBitsAsOneCall, ()) {
  const std::size_t count = 3 * kEpilogueBlock + 17;
  std::vector<std::vector<float>> parts(3, std::vector<float>(count));
  const auto seed = *rc::gen::inRange<std::uint32_t>(1, 1u << 30);
  for (std::size_t r = 0; r < parts.size(); ++r) {
    for (std::size_t i = 0; i < count; ++i) {
      parts[r][i] = std::ldexp(1.0f + static_cast<float>((i * seed + r) % 1000) / 1000.0f,
                               static_cast<int>((i + r * seed) % 20));
    }
  }
  const auto at = pointers(parts);
  std::vector<float> whole(count), pieces(count);
  ordered_sum(at, DType::kFloat32, whole.data(), static_cast<std::int64_t>(count), false);
  for (std::size_t begin = 0; begin < count; begin += kEpilogueBlock) {
    std::vector<const void*> shifted;
    for (const auto& part : parts) shifted.push_back(part.data() + begin);
    const auto length = std::min<std::size_t>(kEpilogueBlock, count - begin);
    ordered_sum(shifted, DType::kFloat32, pieces.data() + begin, static_cast<std::int64_t>(length),
                false);
  }
  RC_ASSERT(whole == pieces);
}

TEST(OrderedSum, EpilogueRunsAfterEachBlockAtTheCallersOffset) {
  const std::int64_t count = 2 * kEpilogueBlock + 5;
  const std::vector<float> part(static_cast<std::size_t>(count), 1.0f);
  std::vector<float> out(static_cast<std::size_t>(count), 0.0f);
  const void* at = part.data();
  std::vector<std::pair<std::int64_t, std::int64_t>> pieces;
  const std::int64_t first = 10 * kEpilogueBlock;
  ordered_sum(
      Parts(&at, 1), DType::kFloat32, out.data(), count, false,
      [&](std::int64_t begin, std::int64_t length) {
        pieces.emplace_back(begin, length);
        const std::int64_t done = begin - first + length;
        EXPECT_EQ(std::accumulate(out.begin(), out.end(), 0.0f), static_cast<float>(done));
      },
      first);
  const std::vector<std::pair<std::int64_t, std::int64_t>> expected = {
      {first, kEpilogueBlock},
      {first + kEpilogueBlock, kEpilogueBlock},
      {first + 2 * kEpilogueBlock, 5}};
  EXPECT_EQ(pieces, expected);
}

TEST(OrderedSum, RefusesIntegers) {
  EXPECT_THROW(ordered_sum({}, DType::kInt64, nullptr, 0, false), ContractError);
  EXPECT_THROW(ordered_sum({}, DType::kUInt8, nullptr, 0, false), ContractError);
}

RC_GTEST_PROP(OrderedReduce, RoundsTheFp32SumOnceForAnyBFloat16, ()) {
  auto parts = any_parts(3, 50);
  const auto before = parts;
  std::vector<void*> outs;
  for (auto& part : parts) outs.push_back(part.data());
  ordered_reduce(pointers(parts), DType::kBFloat16, ReduceOp::kSum, outs, 50);
  for (std::size_t i = 0; i < 50; ++i) {
    float sum = 0.0f;
    for (const Bits16& part : before) sum = sum + float_from_bfloat16(part[i]);
    for (const Bits16& part : parts) {
      RC_ASSERT(same(float_from_bfloat16(part[i]), float_from_bfloat16(bfloat16_from_float(sum))));
    }
  }
}

RC_GTEST_PROP(OrderedReduce, WrapsSumsAndFindsMaximaOfAnyInt64, ()) {
  std::vector<std::vector<std::int64_t>> parts(4);
  for (auto& part : parts) {
    part = *rc::gen::container<std::vector<std::int64_t>>(9, rc::gen::arbitrary<std::int64_t>());
  }
  std::vector<std::int64_t> sums(9), maxima(9);
  void* sum_out = sums.data();
  void* max_out = maxima.data();
  ordered_reduce(pointers(parts), DType::kInt64, ReduceOp::kSum,
                 std::span<void* const>(&sum_out, 1), 9);
  ordered_reduce(pointers(parts), DType::kInt64, ReduceOp::kMax,
                 std::span<void* const>(&max_out, 1), 9);
  for (std::size_t i = 0; i < 9; ++i) {
    std::uint64_t sum = 0;
    std::int64_t largest = parts[0][i];
    for (const auto& part : parts) {
      sum += static_cast<std::uint64_t>(part[i]);
      largest = std::max(largest, part[i]);
    }
    RC_ASSERT(sums[i] == static_cast<std::int64_t>(sum));
    RC_ASSERT(maxima[i] == largest);
  }
}

TEST(OrderedReduce, RefusesWhatAllReduceDoesNotOffer) {
  EXPECT_THROW(ordered_reduce({}, DType::kFloat32, ReduceOp::kMax, {}, 0), ContractError);
  EXPECT_THROW(ordered_reduce({}, DType::kUInt8, ReduceOp::kSum, {}, 0), ContractError);
}

}  // namespace
}  // namespace zero
