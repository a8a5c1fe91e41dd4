#include "libzero/kernels/sum.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "libzero/base/error.h"
#include "libzero/base/float16.h"
#include "libzero/kernels/block_norm.h"

namespace zero {
namespace {

using Floats = std::vector<float>;

/// Values over many magnitudes, so that another order of additions gives other bits.
Floats values(std::size_t count, std::uint32_t seed) {
  Floats result(count);
  std::uint32_t state = seed | 1u;
  for (float& value : result) {
    state = state * 1664525u + 1013904223u;
    value =
        std::ldexp(static_cast<float>(state >> 8) * 0x1p-24f - 0.5f, static_cast<int>(state % 23));
  }
  return result;
}

RC_GTEST_PROP(SumPartsProperty, AddsInRankOrderAndTakesTheNormOfTheResult, ()) {
  const auto ranks = *rc::gen::inRange<std::size_t>(1, 11);
  const auto count = *rc::gen::inRange<std::size_t>(0, 10000);
  const bool accumulate = *rc::gen::arbitrary<bool>();
  const auto seed = *rc::gen::arbitrary<std::uint32_t>();
  std::vector<Floats> parts;
  std::vector<const void*> at;
  for (std::size_t r = 0; r < ranks; ++r) {
    parts.push_back(values(count, seed + static_cast<std::uint32_t>(r)));
    at.push_back(parts.back().data());
  }
  const Floats start = values(count, seed + 100);
  Floats out = start;
  std::vector<double> squares((count + 63) / 64 + 1, -1.0);
  sum_parts(at, DType::kFloat32, out.data(), static_cast<std::int64_t>(count), accumulate,
            squares.data());
  for (std::size_t i = 0; i < count; ++i) {
    float expected = accumulate ? start[i] : 0.0f;
    for (const Floats& part : parts) expected = expected + part[i];
    RC_ASSERT(std::bit_cast<std::uint32_t>(out[i]) == std::bit_cast<std::uint32_t>(expected));
  }
  for (std::size_t b = 0; b + 1 < squares.size(); ++b) {
    const std::size_t length = std::min<std::size_t>(64, count - b * 64);
    RC_ASSERT(squares[b] ==
              block_sum_of_squares(out.data() + b * 64, static_cast<std::int64_t>(length)));
  }
  RC_ASSERT(squares.back() == -1.0);
}

/// Parts of 16 bits give what the same parts in float32 give, squares too.
TEST(SumParts, NarrowPartsAreThoseOfTheWideOnes) {
  constexpr std::size_t kCount = 2 * 4096 + 37, kRanks = 6;
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    const bool is_bfloat16 = dtype == DType::kBFloat16;
    std::vector<std::vector<std::uint16_t>> narrow(kRanks);
    std::vector<Floats> wide(kRanks);
    std::vector<const void*> narrow_at, wide_at;
    for (std::size_t r = 0; r < kRanks; ++r) {
      for (const float value : values(kCount, static_cast<std::uint32_t>(r + 1))) {
        const float small = value * 0x1p-12f;  // within float16
        narrow[r].push_back(is_bfloat16 ? bfloat16_from_float(small) : float16_from_float(small));
        wide[r].push_back(is_bfloat16 ? float_from_bfloat16(narrow[r].back())
                                      : float_from_float16(narrow[r].back()));
      }
      narrow_at.push_back(narrow[r].data());
      wide_at.push_back(wide[r].data());
    }
    for (const bool accumulate : {false, true}) {
      Floats from_narrow(kCount, 0.5f), from_wide(kCount, 0.5f);
      std::vector<double> narrow_squares(kCount / 64 + 1, -1.0),
          wide_squares(kCount / 64 + 1, -2.0);
      sum_parts(narrow_at, dtype, from_narrow.data(), kCount, accumulate, narrow_squares.data());
      sum_parts(wide_at, DType::kFloat32, from_wide.data(), kCount, accumulate,
                wide_squares.data());
      EXPECT_EQ(from_narrow, from_wide) << name_of(dtype);
      EXPECT_EQ(narrow_squares, wide_squares) << name_of(dtype);
    }
  }
}

TEST(SumParts, WithoutSquaresTheSumsAreTheSame) {
  const Floats a = values(5000, 1), b = values(5000, 2);
  const void* const parts[] = {a.data(), b.data()};
  Floats with(5000), without(5000);
  std::vector<double> squares(5000 / 64 + 1);
  sum_parts(parts, DType::kFloat32, with.data(), 5000, false, squares.data());
  sum_parts(parts, DType::kFloat32, without.data(), 5000, false, nullptr);
  EXPECT_EQ(with, without);
}

TEST(SumParts, MinusZeroBecomesPlusZeroUnlessItIsAccumulatedOnto) {
  const Floats part(20, -0.0f);
  const void* const parts[] = {part.data()};
  Floats out(20, 7.0f);
  sum_parts(parts, DType::kFloat32, out.data(), 20, false, nullptr);
  for (const float value : out) EXPECT_FALSE(std::signbit(value));
  out.assign(20, -0.0f);
  sum_parts(parts, DType::kFloat32, out.data(), 20, true, nullptr);
  for (const float value : out) EXPECT_TRUE(std::signbit(value));
}

TEST(SumParts, WhatIsNotFiniteShowsInItsBlockAlone) {
  Floats part = values(3 * 64, 5);
  part[100] = std::nanf("");
  const void* const parts[] = {part.data()};
  Floats out(part.size());
  std::vector<double> squares(3);
  sum_parts(parts, DType::kFloat32, out.data(), 3 * 64, false, squares.data());
  EXPECT_TRUE(std::isfinite(squares[0]));
  EXPECT_FALSE(std::isfinite(squares[1]));
  EXPECT_TRUE(std::isfinite(squares[2]));
}

TEST(SumParts, IntegersAndNobodyAreRefused) {
  float out = 0;
  const float part = 1;
  const void* const parts[] = {&part};
  EXPECT_THROW(sum_parts(parts, DType::kInt64, &out, 1, false, nullptr), ContractError);
  EXPECT_THROW(sum_parts({}, DType::kFloat32, &out, 1, false, nullptr), ContractError);
  EXPECT_EQ(out, 0.0f);
}

}  // namespace
}  // namespace zero
