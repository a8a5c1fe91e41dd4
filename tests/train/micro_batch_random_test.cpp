/// What a micro-batch draws depends on (seed, step, micro-batch) alone.

#include "libzero/train/micro_batch_random.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

namespace zero {
namespace {

/// Through every way in which LibTorch's generator is read: 24-bit, 53-bit and 64-bit words, the
/// pairs of normal numbers of which it keeps the second, masks, permutations.
std::string draw() {
  const std::vector<torch::Tensor> drawn = {
      torch::rand({7}),
      torch::rand({5}, torch::kDouble),
      torch::randn({3}),
      torch::randn({1}, torch::kDouble),
      torch::randint(1 << 30, {9}),
      torch::dropout(torch::ones({64}), 0.5, /*train=*/true),
      torch::randperm(11),
  };
  std::string bytes;
  for (const torch::Tensor& tensor : drawn)
    bytes.append(static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes());
  return bytes;
}

std::string draw_as(std::uint64_t seed, std::int64_t step, std::int64_t micro_batch) {
  const MicroBatchRandom random(seed, step, micro_batch);
  return draw();
}

TEST(MicroBatchRandom, WhatWasDrawnBeforeDoesNotMatter) {
  torch::manual_seed(1);
  const std::string expected = draw_as(3, 5, 7);
  for (const int odd : {1, 2, 17, 700}) {  // one normal number leaves another behind for later
    torch::manual_seed(static_cast<std::uint64_t>(odd));
    torch::randn({odd});
    EXPECT_EQ(draw_as(3, 5, 7), expected) << odd;
  }
}

TEST(MicroBatchRandom, EachArgumentMatters) {
  const std::string expected = draw_as(3, 5, 7);
  EXPECT_NE(draw_as(4, 5, 7), expected);
  EXPECT_NE(draw_as(3, 6, 7), expected);
  EXPECT_NE(draw_as(3, 5, 8), expected);
  EXPECT_NE(draw_as(3, 7, 5), expected);
  EXPECT_NE(draw_as(3 + (std::uint64_t{1} << 63), 5, 7), expected);
}

TEST(MicroBatchRandom, AfterwardsTheGeneratorGoesOnWhereItWas) {
  for (const int before : {0, 1, 17}) {
    torch::manual_seed(9);
    const torch::Tensor first = torch::randn({before});
    const std::string expected = draw();

    torch::manual_seed(9);
    EXPECT_TRUE(torch::equal(torch::randn({before}), first));
    draw_as(1, 2, 3);
    EXPECT_EQ(draw(), expected) << before;
  }
}

TEST(MicroBatchRandom, AlsoWhereTheMicroBatchThrows) {
  torch::manual_seed(9);
  const std::string expected = draw();
  torch::manual_seed(9);
  try {
    const MicroBatchRandom random(1, 2, 3);
    draw();
    throw std::runtime_error("loss");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(draw(), expected);
}

TEST(MicroBatchRandom, OneWithinAnotherLeavesTheOuterWhereItWas) {
  std::string expected_first, expected_second;
  {
    const MicroBatchRandom random(1, 2, 3);
    expected_first = draw();
    expected_second = draw();
  }
  const MicroBatchRandom random(1, 2, 3);
  EXPECT_EQ(draw(), expected_first);
  EXPECT_NE(draw_as(1, 2, 4), expected_second);
  EXPECT_EQ(draw(), expected_second);
}

TEST(MicroBatchRandom, SeedsAreTheSameInEveryVersion) {
  EXPECT_EQ(micro_batch_seed(0, 0, 0), 2558736989570252433u);
  EXPECT_EQ(micro_batch_seed(1, 2, 3), 5065153890579565438u);
  EXPECT_EQ(micro_batch_seed(~std::uint64_t{0}, -1, std::int64_t{1} << 62), 193545271367136058u);
}

TEST(MicroBatchRandom, AMillionMicroBatchesHaveAMillionSeeds) {
  std::vector<std::uint64_t> seeds;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    for (std::int64_t step = 0; step < 100; ++step) {
      for (std::int64_t micro_batch = 0; micro_batch < 100; ++micro_batch)
        seeds.push_back(micro_batch_seed(seed, step, micro_batch));
    }
  }
  std::sort(seeds.begin(), seeds.end());
  EXPECT_EQ(std::adjacent_find(seeds.begin(), seeds.end()), seeds.end());
}

/// LibTorch's own seeding does not know the upper half.
TEST(MicroBatchRandom, SeedsThatAgreeInTheirLowerHalfDrawOtherNumbers) {
  std::unordered_map<std::uint32_t, std::int64_t> seen;
  std::int64_t first = -1, second = 0;
  for (; first < 0; ++second) {
    const auto low = static_cast<std::uint32_t>(micro_batch_seed(1, 1, second));
    const auto [found, is_new] = seen.emplace(low, second);
    if (!is_new) {
      first = found->second;
      break;
    }
  }
  ASSERT_EQ(static_cast<std::uint32_t>(micro_batch_seed(1, 1, first)),
            static_cast<std::uint32_t>(micro_batch_seed(1, 1, second)));
  EXPECT_NE(draw_as(1, 1, first), draw_as(1, 1, second));
}

TEST(MicroBatchRandom, NeighboursAreUniformAndUncorrelated) {
  constexpr std::int64_t kNumbers = 100'000;
  const auto numbers_of = [](std::int64_t step, std::int64_t micro_batch) {
    const MicroBatchRandom random(1, step, micro_batch);
    return (torch::rand({kNumbers}, torch::kDouble) - 0.5) * std::sqrt(12.0);  // variance 1
  };
  const torch::Tensor here = numbers_of(10, 20);
  const double error = 5 / std::sqrt(static_cast<double>(kNumbers));  // five standard errors
  EXPECT_NEAR(here.mean().item<double>(), 0, error);
  EXPECT_NEAR((here * here).mean().item<double>(), 1, error);
  for (const torch::Tensor& other : {numbers_of(10, 21), numbers_of(11, 20), numbers_of(20, 10)})
    EXPECT_NEAR((here * other).mean().item<double>(), 0, error);
}

}  // namespace
}  // namespace zero
