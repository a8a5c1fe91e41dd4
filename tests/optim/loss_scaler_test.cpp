#include "libzero/optim/loss_scaler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "libzero/base/error.h"

namespace zero {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// 'o' is a clean step, '!' an overflow.
constexpr std::string_view kTrace = "ooo!o!!oooooo";

std::vector<double> scales(LossScaler& scaler, std::string_view outcomes) {
  std::vector<double> result;
  for (const char outcome : outcomes) {
    scaler.update(outcome == '!');
    result.push_back(scaler.scale());
  }
  return result;
}

LossScalerOptions trace_options(std::int32_t hysteresis) {
  return {.initial_scale = 1024, .growth_interval = 3, .hysteresis = hysteresis};
}

const std::vector<double> kGradScalerRow = {1024, 1024, 2048, 1024, 1024, 512, 256,
                                            256,  256,  512,  512,  512,  1024};
const std::vector<double> kMegatronRow = {1024, 1024, 2048, 2048, 2048, 1024, 512,
                                          512,  512,  1024, 1024, 1024, 2048};

TEST(LossScaler, WithHysteresis1FollowsGradScalersTrace) {
  LossScaler scaler(trace_options(1));
  EXPECT_EQ(scales(scaler, kTrace), kGradScalerRow);
}

TEST(LossScaler, WithHysteresis2FollowsMegatronsTrace) {
  LossScaler scaler(trace_options(2));
  EXPECT_EQ(scales(scaler, kTrace), kMegatronRow);
}

TEST(LossScaler, OnlyACompletedGrowthIntervalRefillsHysteresis) {
  LossScaler refilled(trace_options(2));
  EXPECT_THAT(scales(refilled, "!!ooo!!"), ElementsAre(1024, 512, 512, 512, 1024, 1024, 512));
  LossScaler interrupted(trace_options(3));
  EXPECT_THAT(scales(interrupted, "!oo!oo!!"),
              ElementsAre(1024, 1024, 1024, 1024, 1024, 1024, 512, 256));
}

TEST(LossScaler, SavingAndLoadingAtAnyStepChangesNothing) {
  for (const std::int32_t hysteresis : {1, 2}) {
    for (std::size_t cut = 0; cut <= kTrace.size(); ++cut) {
      LossScaler before(trace_options(hysteresis));
      std::vector<double> trace = scales(before, kTrace.substr(0, cut));
      LossScaler after(trace_options(hysteresis));
      after.set_state(before.state());
      const std::vector<double> rest = scales(after, kTrace.substr(cut));
      trace.insert(trace.end(), rest.begin(), rest.end());
      EXPECT_EQ(trace, hysteresis == 1 ? kGradScalerRow : kMegatronRow) << "saved after " << cut;
    }
  }
}

TEST(LossScaler, TheStateAtStep5HasHysteresisSpentAndTheCounterMidWay) {
  LossScaler scaler(trace_options(2));
  scales(scaler, kTrace.substr(0, 5));
  EXPECT_EQ(scaler.state(),
            (LossScalerState{
                .scale = 2048, .growth_tracker = 1, .hysteresis_left = 1, .consecutive_skips = 0}));
}

TEST(LossScaler, TheFirstGrowthComesAfterExactlyTheInterval) {
  LossScaler scaler;
  for (int i = 0; i < 1999; ++i) scaler.update(false);
  EXPECT_EQ(scaler.scale(), 65536);
  scaler.update(false);
  EXPECT_EQ(scaler.scale(), 131072);
}

TEST(LossScaler, NeverFallsBelowTheMinimum) {
  LossScaler scaler({.initial_scale = 4, .min_scale = 1});
  EXPECT_THAT(scales(scaler, "!!!!!"), ElementsAre(2, 1, 1, 1, 1));
  LossScaler uneven({.initial_scale = 4, .backoff_factor = 0.3, .min_scale = 0.75});
  EXPECT_THAT(scales(uneven, "!!!"), ElementsAre(static_cast<double>(1.2f), 0.75, 0.75));
}

TEST(LossScaler, GrowthStopsWhereFloat32Ends) {
  LossScaler scaler({.initial_scale = 0x1p126, .growth_interval = 1});
  EXPECT_THAT(scales(scaler, "ooo"), ElementsAre(0x1p127, 0x1p127, 0x1p127));
}

TEST(LossScaler, IsExhaustedAfterTheConfiguredSkipsInARow) {
  LossScaler scaler({.max_consecutive_skips = 3});
  scales(scaler, "!!o!!");
  EXPECT_FALSE(scaler.exhausted());
  scaler.update(true);
  EXPECT_TRUE(scaler.exhausted());
  scaler.update(false);
  EXPECT_FALSE(scaler.exhausted());
}

TEST(LossScaler, IsNeverExhaustedByDefault) {
  LossScaler scaler;
  for (int i = 0; i < 10000; ++i) scaler.update(true);
  EXPECT_FALSE(scaler.exhausted());
  EXPECT_EQ(scaler.state().consecutive_skips, 10000);
  EXPECT_EQ(scaler.scale(), 1);
}

TEST(LossScaler, DisabledStaysAtExactly1AndOnlyCountsSkips) {
  LossScaler scaler = LossScaler::disabled(2);
  EXPECT_FALSE(scaler.enabled());
  for (int i = 0; i < 5000; ++i) scaler.update(false);
  EXPECT_EQ(scaler.state(), LossScalerState{});
  scaler.update(true);
  EXPECT_EQ(scaler.state(), (LossScalerState{.consecutive_skips = 1}));
  EXPECT_FALSE(scaler.exhausted());
  scaler.update(true);
  EXPECT_TRUE(scaler.exhausted());
  EXPECT_EQ(scaler.scale(), 1);
  EXPECT_THROW(LossScaler::disabled(-1), ContractError);
}

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const ContractError& error) {
    return error.what();
  }
  return "no error";
}

TEST(LossScaler, EachOptionOutOfRangeIsRefusedByName) {
  const auto expect_refused = [](const std::string& name, auto change) {
    LossScalerOptions options;
    change(options);
    EXPECT_THAT(error_of([&] { LossScaler scaler(options); }), HasSubstr(" " + name + " must be "));
  };
  for (const double bad : {0.0, -2.0, kInfinity, std::nan(""), 0.1, 0x1p128, 0x1p-160}) {
    expect_refused("initial_scale", [&](auto& o) { o.initial_scale = bad; });
    expect_refused("min_scale", [&](auto& o) { o.min_scale = bad; });
  }
  expect_refused("initial_scale", [](auto& o) { o.initial_scale = 0.5; });  // Below min_scale.
  for (const double bad : {0.5, -2.0, kInfinity, std::nan("")}) {
    expect_refused("growth_factor", [&](auto& o) { o.growth_factor = bad; });
  }
  for (const double bad : {0.0, -0.5, 1.5, std::nan("")}) {
    expect_refused("backoff_factor", [&](auto& o) { o.backoff_factor = bad; });
  }
  expect_refused("growth_interval", [](auto& o) { o.growth_interval = 0; });
  expect_refused("hysteresis", [](auto& o) { o.hysteresis = 0; });
  expect_refused("max_consecutive_skips", [](auto& o) { o.max_consecutive_skips = -1; });
}

TEST(LossScaler, ABadStateIsRefusedAndLeavesTheOldOne) {
  LossScaler scaler({.initial_scale = 1024});
  const LossScalerState good = scaler.state();
  const auto expect_refused = [&](const std::string& name, auto change) {
    LossScalerState state = good;
    change(state);
    EXPECT_THAT(error_of([&] { scaler.set_state(state); }), HasSubstr("saved " + name));
    EXPECT_EQ(scaler.state(), good);
  };
  for (const double bad : {0.0, -1.0, 0.5, 0.1, kInfinity, std::nan("")}) {
    expect_refused("scale", [&](auto& s) { s.scale = bad; });
  }
  expect_refused("growth_tracker", [](auto& s) { s.growth_tracker = -1; });
  expect_refused("hysteresis_left", [](auto& s) { s.hysteresis_left = -1; });
  expect_refused("consecutive_skips", [](auto& s) { s.consecutive_skips = -1; });
  LossScaler disabled = LossScaler::disabled();
  EXPECT_THAT(error_of([&] { disabled.set_state(good); }),
              AllOf(HasSubstr("fp16"), HasSubstr("1024")));
}

TEST(LossScaler, OptionsMayChangeBetweenSaveAndLoad) {
  LossScaler scaler({.initial_scale = 8, .growth_interval = 2, .hysteresis = 2});
  scaler.set_state({.scale = 16, .growth_tracker = 1000, .hysteresis_left = 9});
  EXPECT_EQ(scaler.state().hysteresis_left, 2);
  scaler.update(false);
  EXPECT_EQ(scaler.scale(), 32);
}

RC_GTEST_PROP(LossScalerProperty, TheScaleIsAlwaysAFloatBetweenItsBounds, ()) {
  LossScalerOptions options;
  options.initial_scale = *rc::gen::element(1.0, 3.0, 65536.0, 0x1p127);
  options.growth_factor = *rc::gen::element(1.0, 1.1, 2.0, 1e30);
  options.backoff_factor = *rc::gen::element(1e-30, 0.3, 0.5, 1.0);
  options.growth_interval = *rc::gen::inRange(1, 4);
  options.hysteresis = *rc::gen::inRange(1, 4);
  options.min_scale = *rc::gen::element(1.0, 0.75, 0x1p-149);
  LossScaler scaler(options);
  for (const bool overflow : *rc::gen::arbitrary<std::vector<bool>>()) {
    const double before = scaler.scale();
    scaler.update(overflow);
    RC_ASSERT(scaler.scale() >= options.min_scale);
    RC_ASSERT(scaler.scale() <= static_cast<double>(std::numeric_limits<float>::max()));
    RC_ASSERT(static_cast<double>(static_cast<float>(scaler.scale())) == scaler.scale());
    RC_ASSERT((overflow ? scaler.scale() <= before : scaler.scale() >= before));
    LossScaler copy(options);
    copy.set_state(scaler.state());
    RC_ASSERT(copy.state() == scaler.state());
  }
}

}  // namespace
}  // namespace zero
