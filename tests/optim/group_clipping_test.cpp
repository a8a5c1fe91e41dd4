#include "libzero/optim/group_clipping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace zero {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Three groups with norms of 3, 4 and 12 after the scale of 2.
struct Case {
  std::vector<double> squares = {36, 64, 576};
  std::vector<double> limits = {0, 0, 0};
  double clip_norm = 0;
  Decision all;
  GroupClipping groups;

  void decide_all() {
    double sum = 0;
    for (const double one : squares) sum += one;
    all = decide({.sum_of_squares = sum, .loss_scale = 2, .clip_norm = clip_norm});
    if (std::isinf(sum)) all = decide({.sum_of_squares = sum, .finite = false});
    decide_groups({.squares = squares, .limits = limits, .loss_scale = 2, .clip_norm = clip_norm},
                  all, groups);
  }
};

TEST(GroupClipping, WithoutLimitsOfTheirOwnAllGroupsAreClippedTogether) {
  Case c;
  c.clip_norm = 1.3;
  c.decide_all();
  const Decision expected = decide({.sum_of_squares = 676, .loss_scale = 2, .clip_norm = 1.3});
  EXPECT_THAT(c.groups.norms, ElementsAre(3, 4, 12));
  EXPECT_THAT(c.groups.clip_factors, Each(expected.clip_factor));
  EXPECT_THAT(c.groups.gradient_factors, Each(expected.gradient_factor));
  EXPECT_EQ(c.all.gradient_factor, expected.gradient_factor);
}

TEST(GroupClipping, AGroupWithALimitIsClippedApartAndTheOthersByTheirOwnNorm) {
  Case c;
  c.limits = {0, 0, 6};
  c.clip_norm = 2.5;  // of the first two, whose norm is 5
  c.decide_all();
  EXPECT_EQ(c.all.grad_norm, 13);
  EXPECT_THAT(c.groups.clip_factors,
              ElementsAre(2.5 / (5 + 1e-6), 2.5 / (5 + 1e-6), 6 / (12 + 1e-6)));
  EXPECT_EQ(c.groups.gradient_factors[2], static_cast<float>(6 / (12 + 1e-6) / 2));
  EXPECT_EQ(c.all.clip_factor, 2.5 / (5 + 1e-6));
}

TEST(GroupClipping, ALimitAboveTheNormLeavesTheGroupAlone) {
  Case c;
  c.limits = {3, 0, 0};
  c.decide_all();
  EXPECT_THAT(c.groups.clip_factors, Each(1));
  EXPECT_THAT(c.groups.gradient_factors, Each(0.5f));
}

TEST(GroupClipping, ASkippedStepClipsNothingAndSaysWhichGroupIsNotFinite) {
  Case c;
  c.squares[1] = kInfinity;
  c.limits = {1, 1, 0};
  c.decide_all();
  EXPECT_FALSE(c.all.apply);
  EXPECT_THAT(c.groups.norms, ElementsAre(3, kInfinity, 12));
  EXPECT_THAT(c.groups.clip_factors, Each(1));
  EXPECT_THAT(c.groups.gradient_factors, Each(0));
}

}  // namespace
}  // namespace zero
