#include "libzero/optim/decision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <ostream>

#include "libzero/base/error.h"
#include "libzero/optim/loss_scaler.h"

namespace zero {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kNan = std::numeric_limits<double>::quiet_NaN();

struct Row {
  const char* name;
  DecisionInput input;
  double grad_norm;
  double clip_factor;
  double gradient_factor;
  friend std::ostream& operator<<(std::ostream& out, const Row& row) { return out << row.name; }
};

class Decide : public ::testing::TestWithParam<Row> {};

TEST_P(Decide, GivesTheTablesNormAndFactors) {
  const Row& row = GetParam();
  const Decision decision = decide(row.input);
  EXPECT_TRUE(decision.apply);
  EXPECT_DOUBLE_EQ(decision.grad_norm, row.grad_norm);
  EXPECT_EQ(decision.clip_factor, row.clip_factor);
  EXPECT_EQ(decision.gradient_factor, static_cast<float>(row.gradient_factor));
}

INSTANTIATE_TEST_SUITE_P(
    Table, Decide,
    ::testing::Values(
        Row{"Norm10Clip1",
            {.sum_of_squares = 100, .clip_norm = 1},
            10,
            1 / (10 + 1e-6),
            0.09999999},
        Row{"Norm09Clip1", {.sum_of_squares = 0.81, .clip_norm = 1}, 0.9, 1, 1},
        Row{"NormEqualToClip", {.sum_of_squares = 4, .clip_norm = 2}, 2, 1, 1},
        Row{"ClipOffStillReportsTheNorm", {.sum_of_squares = 100}, 10, 1, 1},
        Row{"ClipAtInfinityIsOff", {.sum_of_squares = 100, .clip_norm = kInfinity}, 10, 1, 1},
        Row{"NoGradient", {.clip_norm = 1}, 0, 1, 1},
        Row{"TiedWeightOnce", {.sum_of_squares = 800}, 28.284271247461902, 1, 1},
        Row{"ShardsOf3And4", {.sum_of_squares = 9 + 16}, 5, 1, 1},
        Row{"ScaleAndWeightsAreDivided",
            {.sum_of_squares = 100.0 * 1024 * 1024 * 49, .loss_scale = 1024, .weight_sum = 7},
            10,
            1,
            1.0 / (1024 * 7)},
        Row{"ClippingSeesTheTrueNorm",
            {.sum_of_squares = 0.81 * 1024 * 1024 * 49,
             .loss_scale = 1024,
             .weight_sum = 7,
             .clip_norm = 1},
            0.9,
            1,
            1.0 / (1024 * 7)},
        Row{"AllAtOnce",
            {.sum_of_squares = 100.0 * 1024 * 1024 * 16,
             .loss_scale = 1024,
             .weight_sum = 4,
             .clip_norm = 2},
            10,
            2 / (10 + 1e-6),
            2 / (10 + 1e-6) / 4096},
        Row{"ManyTokens",
            {.sum_of_squares = 1, .loss_scale = 1, .weight_sum = std::int64_t{1} << 40},
            0x1p-40,
            1,
            0x1p-40}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(Decide, OverflowIsNotAppliedAndReportedAsInfinityOrNan) {
  const Decision flag = decide({.sum_of_squares = 100, .finite = false, .clip_norm = 1});
  EXPECT_FALSE(flag.apply);
  EXPECT_EQ(flag.grad_norm, kInfinity);
  EXPECT_EQ(flag.clip_factor, 1);
  EXPECT_EQ(flag.gradient_factor, 0);
  EXPECT_TRUE(std::isnan(decide({.sum_of_squares = kNan, .finite = false}).grad_norm));
}

TEST(Decide, ASumThatIsNotFiniteOverrulesTheFlag) {
  EXPECT_FALSE(decide({.sum_of_squares = kInfinity}).apply);
  EXPECT_EQ(decide({.sum_of_squares = kInfinity}).grad_norm, kInfinity);
  EXPECT_FALSE(decide({.sum_of_squares = kNan}).apply);
}

TEST(Decide, TheScaleBeforeItsUpdateUnscalesTheGradient) {
  LossScaler scaler({.initial_scale = 4, .growth_interval = 1});
  const float raw = 1.0f * 4;  // A true gradient of 1 under the scale that the loss had.
  const Decision decision = decide({.sum_of_squares = 16, .loss_scale = scaler.scale()});
  scaler.update(!decision.apply);
  EXPECT_EQ(raw * decision.gradient_factor, 1.0f);
  EXPECT_EQ(scaler.scale(), 8);
}

TEST(Decide, InputsThatMakeNoSenseAreRefused) {
  for (const double scale : {0.0, -1.0, kInfinity, kNan}) {
    EXPECT_THROW(decide({.loss_scale = scale}), ContractError) << scale;
  }
  EXPECT_THROW(decide({.weight_sum = 0}), ContractError);
  EXPECT_THROW(decide({.weight_sum = -3}), ContractError);
  EXPECT_THROW(decide({.clip_norm = -1}), ContractError);
  EXPECT_THROW(decide({.clip_norm = kNan}), ContractError);
}

}  // namespace
}  // namespace zero
