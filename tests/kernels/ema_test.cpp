#include "libzero/kernels/ema.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "instruction_sets.h"

namespace zero {
namespace {

std::vector<float> numbers(std::size_t n, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

TEST(Ema, FollowsTheFp64Average) {
  constexpr std::size_t kCount = 517;
  std::vector<float> average = numbers(kCount, 1);
  std::vector<double> expected(average.begin(), average.end());
  for (std::uint32_t t = 2; t < 60; ++t) {
    const auto values = numbers(kCount, t);
    ema_step(0.1f, values.data(), average.data(), kCount);
    for (std::size_t i = 0; i < kCount; ++i) expected[i] = 0.9 * expected[i] + 0.1 * values[i];
  }
  for (std::size_t i = 0; i < kCount; ++i) ASSERT_NEAR(average[i], expected[i], 1e-6) << i;
}

TEST(Ema, EveryInstructionSetHasTheBitsOfPlainCodeForRunsOfAnyLength) {
  for (const std::int64_t target : instruction_sets()) {
    const OnInstructionSet scope(target);
    for (const std::size_t n : {0u, 1u, 15u, 16u, 17u, 250u}) {
      const auto values = numbers(n, 3);
      auto average = numbers(n + 1, 4);
      auto expected = average;
      ema_step(0.001f, values.data(), average.data(), static_cast<std::int64_t>(n));
      for (std::size_t i = 0; i < n; ++i) {
        const float difference = values[i] - expected[i];
        const float part = 0.001f * difference;
        expected[i] = expected[i] + part;
      }
      EXPECT_EQ(average, expected) << hwy::TargetName(target) << " " << n;
    }
  }
}

TEST(Ema, OfWhatRestsIsThatToTheBit) {
  const auto values = numbers(100, 5);
  auto average = values;
  for (int t = 0; t < 10000; ++t) ema_step(1e-4f, values.data(), average.data(), 100);
  EXPECT_EQ(average, values);
}

}  // namespace
}  // namespace zero
