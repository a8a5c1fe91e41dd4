#include "libzero/kernels/block_norm.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "libzero/base/error.h"

namespace zero {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// The documented order, read off the text: lane by lane, then four pairwise rounds.
double naive(const std::vector<float>& data) {
  std::array<double, 16> lane{};
  for (std::size_t l = 0; l < 16; ++l) {
    for (std::size_t i = l; i < data.size(); i += 16) {
      lane[l] = lane[l] + static_cast<double>(data[i]) * static_cast<double>(data[i]);
    }
  }
  std::array<double, 8> a{};
  for (std::size_t l = 0; l < 8; ++l) a[l] = lane[l] + lane[l + 8];
  return ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]));
}

double sum(const std::vector<float>& data) {
  return block_sum_of_squares(data.data(), static_cast<std::int64_t>(data.size()));
}

/// Values over many magnitudes, so that another order of additions gives other bits.
std::vector<float> random_values(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& v : values) {
    v = std::ldexp(static_cast<float>(random()) * 0x1p-32f - 0.5f, static_cast<int>(random() % 24));
  }
  return values;
}

RC_GTEST_PROP(BlockNormProperty, TheBitsAreThoseOfTheDocumentedOrder, ()) {
  const auto count = *rc::gen::inRange<std::size_t>(0, 65);
  const auto values = random_values(count, *rc::gen::arbitrary<std::uint32_t>());
  RC_ASSERT(std::bit_cast<std::uint64_t>(sum(values)) ==
            std::bit_cast<std::uint64_t>(naive(values)));
}

TEST(BlockNorm, EveryCountFollowsTheDocumentedOrder) {
  const auto values = random_values(64, 7);
  for (std::size_t count = 0; count <= 64; ++count) {
    const std::vector<float> part(values.begin(),
                                  values.begin() + static_cast<std::ptrdiff_t>(count));
    ASSERT_EQ(sum(part), naive(part)) << count;
  }
}

TEST(BlockNorm, UnalignedDataGivesTheSameBits) {
  const auto values = random_values(60, 3);
  std::vector<float> shifted(values.size() + 5);
  for (std::size_t shift = 0; shift <= 5; ++shift) {
    std::copy(values.begin(), values.end(), shifted.begin() + static_cast<std::ptrdiff_t>(shift));
    ASSERT_EQ(block_sum_of_squares(shifted.data() + shift, 60), naive(values));
  }
}

TEST(BlockNorm, TheLargestAndTheSmallestFloatsNeitherOverflowNorVanish) {
  const float largest = std::numeric_limits<float>::max();
  const std::vector<float> block(64, largest);
  EXPECT_TRUE(std::isfinite(sum(block)));
  EXPECT_EQ(sum(block), naive(block));
  EXPECT_EQ(sum({std::numeric_limits<float>::denorm_min()}), std::ldexp(1.0, -298));
}

TEST(BlockNorm, ZerosAddNothing) {
  auto values = random_values(50, 5);
  const double before = sum(values);
  values.resize(64, 0.0f);
  EXPECT_EQ(sum(values), before);
  EXPECT_EQ(sum({}), 0.0);
}

TEST(BlockNorm, IsNotFiniteExactlyWhenAnElementIsNot) {
  for (const float bad : {kInfinity, -kInfinity, kNan}) {
    for (const std::size_t count : {1u, 15u, 16u, 17u, 64u}) {
      for (const std::size_t at : {std::size_t{0}, count / 2, count - 1}) {
        auto values = random_values(count, 11);
        ASSERT_TRUE(std::isfinite(sum(values)));
        values[at] = bad;
        ASSERT_FALSE(std::isfinite(sum(values))) << bad << " at " << at << " of " << count;
      }
    }
  }
}

TEST(BlockNorm, CountsBeyondABlockAreRefused) {
  const std::vector<float> values(65);
  EXPECT_THROW(sum(values), ContractError);
  EXPECT_THROW(block_sum_of_squares(values.data(), -1), ContractError);
}

TEST(FirstNonfinite, FindsTheFirstOfSeveralAtAnyPosition) {
  for (const std::size_t count : {1u, 16u, 1023u, 1024u, 1025u, 5000u}) {
    auto values = random_values(count, 13);
    const auto size = static_cast<std::int64_t>(count);
    ASSERT_EQ(first_nonfinite(values.data(), size), -1);
    values[count - 1] = -kInfinity;
    ASSERT_EQ(first_nonfinite(values.data(), size), size - 1);
    values[count / 2] = kNan;
    ASSERT_EQ(first_nonfinite(values.data(), size), size / 2);
    values[0] = kInfinity;
    ASSERT_EQ(first_nonfinite(values.data(), size), 0);
  }
  EXPECT_EQ(first_nonfinite(nullptr, 0), -1);
}

TEST(FirstNonfinite, TheLargestFloatsAreFinite) {
  const float largest = std::numeric_limits<float>::max();
  const std::vector<float> values = {largest, -largest, std::bit_cast<float>(0x7f800001u)};
  EXPECT_EQ(first_nonfinite(values.data(), 2), -1);
  EXPECT_EQ(first_nonfinite(values.data(), 3), 2);
}

}  // namespace
}  // namespace zero
