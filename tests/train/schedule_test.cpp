/// Each schedule has the values of its formula, and those of PyTorch's scheduler of that name.

#include "libzero/train/schedule.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <vector>

#include "libzero/base/error.h"
#include "tests/thrown.h"

namespace zero {
namespace {

using ::testing::HasSubstr;
using testing::thrown;

/// Factors of updates 1, 2, ...
void expect_factors(const Schedule& schedule, const std::vector<double>& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto update = static_cast<std::int64_t>(i) + 1;
    EXPECT_NEAR(schedule.factor(update), expected[i], 1e-12) << "update " << update;
  }
}

TEST(Schedule, Constant) {
  expect_factors(Schedule::constant(), {1, 1, 1, 1});
}

/// PyTorch 2.11: LinearLR(sgd, 1.0, 0.2, 8) over SGD(lr=1.0), from its second value on.
TEST(Schedule, Linear) {
  expect_factors(Schedule::linear(8, 0.2), {0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.2, 0.2});
  expect_factors(Schedule::linear(4), {0.75, 0.5, 0.25, 0, 0});
  expect_factors(Schedule::linear(2, 3), {2, 3, 3});
}

/// PyTorch 2.11: CosineAnnealingLR(sgd, 8, 0.1), from its second value on; the end stays.
TEST(Schedule, Cosine) {
  expect_factors(Schedule::cosine(8, 0.1),
                 {0.965745789630079, 0.868198051533946, 0.72220754456429, 0.55, 0.37779245543571,
                  0.231801948466054, 0.134254210369921, 0.1, 0.1, 0.1});
}

/// PyTorch 2.11: PolynomialLR(sgd, 8, 2.0), from its second value on.
TEST(Schedule, Polynomial) {
  expect_factors(Schedule::polynomial(8, 2),
                 {0.765625, 0.5625, 0.390625, 0.25, 0.140625, 0.0625, 0.015625, 0, 0, 0});
  expect_factors(Schedule::polynomial(2, 1, 0.5), {0.75, 0.5, 0.5});
  expect_factors(Schedule::polynomial(4, 0.5, 0), {std::sqrt(0.75), std::sqrt(0.5), 0.5, 0});
}

TEST(Schedule, InverseSqrt) {
  expect_factors(Schedule::inverse_sqrt(1), {std::sqrt(1 / 2.0), std::sqrt(1 / 3.0), 0.5});
  // sqrt(4 / update) after a warm-up of 4.
  expect_factors(Schedule::inverse_sqrt(4).warmup(4),
                 {0.25, 0.5, 0.75, 1, std::sqrt(4 / 5.0), std::sqrt(4 / 6.0), std::sqrt(4 / 7.0),
                  std::sqrt(4 / 8.0), std::sqrt(4 / 9.0)});
  EXPECT_NEAR(Schedule::inverse_sqrt(4).warmup(4).factor(400), 0.1, 1e-12);
}

/// PyTorch 2.11: OneCycleLR(sgd, 1.0, total_steps=10, pct_start=0.4, div_factor=25,
/// final_div_factor=1e4, cycle_momentum=False), from its second value on.
TEST(Schedule, OneCycle) {
  const Schedule schedule = Schedule::one_cycle(9, {.rise = 1 / 3.0, .start = 0.04, .end = 4e-6});
  expect_factors(schedule, {0.28, 0.76, 1.0, 0.933012969841412, 0.750001, 0.500002, 0.250003,
                            0.0669910301585882, 4e-6, 4e-6});
  expect_factors(Schedule::one_cycle(2, {.rise = 0.01, .start = 0, .end = 0.5}), {1, 0.5, 0.5});
}

TEST(Schedule, WarmupStableDecay) {
  using Decay = Schedule::Decay;
  expect_factors(Schedule::stable_decay(3, 2, 0.5).warmup(2), {0.5, 1, 1, 1, 1, 0.75, 0.5, 0.5});
  expect_factors(Schedule::stable_decay(1, 4, 0, Decay::kOneMinusSqrt),
                 {1, 0.5, 1 - std::sqrt(0.5), 1 - std::sqrt(0.75), 0, 0});
  expect_factors(Schedule::stable_decay(1, 2, 0.2, Decay::kCosine), {1, 0.6, 0.2, 0.2});
}

TEST(Schedule, WarmupReachesThePeakWithItsLastUpdate) {
  expect_factors(Schedule::constant().warmup(4), {0.25, 0.5, 0.75, 1, 1});
  expect_factors(Schedule::constant().warmup(4, 0.5), {0.625, 0.75, 0.875, 1, 1});
  expect_factors(Schedule::linear(2).warmup(0), {0.5, 0, 0});
  expect_factors(Schedule::linear(2).warmup(1), {1, 0.5, 0, 0});
}

TEST(Schedule, OneAfterAnotherBeginsAnew) {
  const Schedule cycles = Schedule::linear(2).then(2, Schedule::linear(2).times(0.5).warmup(2));
  expect_factors(cycles, {0.5, 0, 0.5, 1, 0.25, 0, 0});
  expect_factors(Schedule::constant().then(0, Schedule::linear(2)), {0.5, 0});
  expect_factors(Schedule::linear(4).then(1, Schedule::constant().times(3)), {0.75, 3, 3});
}

TEST(Schedule, WhatIsOutOfRangeIsNamed) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(thrown<ContractError>([] { Schedule::linear(0); }), HasSubstr("updates must be at"));
  EXPECT_THAT(thrown<ContractError>([&] { Schedule::cosine(3, nan); }), HasSubstr("end must be"));
  EXPECT_THAT(thrown<ContractError>([] { Schedule::cosine(3, -0.1); }), HasSubstr("-0.1"));
  EXPECT_THAT(thrown<ContractError>([] { Schedule::polynomial(3, 0); }), HasSubstr("power"));
  EXPECT_THAT(thrown<ContractError>([] { Schedule::inverse_sqrt(0); }), HasSubstr("scale"));
  EXPECT_THAT(thrown<ContractError>([] { Schedule::one_cycle(1); }), HasSubstr("at least 2"));
  EXPECT_THAT(thrown<ContractError>([] { Schedule::one_cycle(9, {.rise = 1}); }),
              HasSubstr("rise"));
  EXPECT_THAT(thrown<ContractError>([] { Schedule::stable_decay(-1, 2); }), HasSubstr("stable"));
  EXPECT_THAT(thrown<ContractError>([] { Schedule::stable_decay(1, 0); }), HasSubstr("decay"));
  EXPECT_THAT(thrown<ContractError>([] { Schedule::constant().warmup(-1); }), HasSubstr("warm-up"));
  EXPECT_THAT(thrown<ContractError>([] { Schedule::constant().factor(0); }),
              HasSubstr("update must be at least 1"));
}

}  // namespace
}  // namespace zero
