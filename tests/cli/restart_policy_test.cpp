#include "cli/restart_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <vector>

#include "cli/exit_code.h"

namespace zero::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

RunSettings settings_of(int ranks, std::optional<int> min_ranks,
                        std::optional<int> micro_batches = {}) {
  RunSettings settings;
  settings.ranks = ranks;
  settings.restarts = 3;
  settings.min_ranks = min_ranks;
  settings.micro_batches = micro_batches;
  return settings;
}

/// The numbers of ranks of the first tries.
std::vector<int> path(const RunSettings& settings, int tries) {
  std::vector<int> ranks{settings.ranks};
  while (static_cast<int>(ranks.size()) < tries) {
    ranks.push_back(ranks_after(settings, ranks.back()));
  }
  return ranks;
}

TEST(RestartPolicy, StaysAtTheSameNumberUnlessToldOtherwise) {
  EXPECT_THAT(path(settings_of(4, {}), 3), ElementsAre(4, 4, 4));
}

TEST(RestartPolicy, GoesDownTheDivisorsOfTheStartingNumber) {
  EXPECT_THAT(path(settings_of(4, 1), 5), ElementsAre(4, 2, 1, 1, 1));
  EXPECT_THAT(path(settings_of(6, 1), 5), ElementsAre(6, 3, 2, 1, 1));
  EXPECT_THAT(path(settings_of(7, 1), 3), ElementsAre(7, 1, 1));
}

TEST(RestartPolicy, GoesDownTheDivisorsOfTheMicroBatchesWhereTheyAreGiven) {
  EXPECT_THAT(path(settings_of(4, 1, 12), 5), ElementsAre(4, 3, 2, 1, 1));
}

TEST(RestartPolicy, NeverGoesBelowTheLeastNumber) {
  EXPECT_THAT(path(settings_of(4, 2), 4), ElementsAre(4, 2, 2, 2));
  EXPECT_THAT(path(settings_of(4, 3), 3), ElementsAre(4, 4, 4));
  EXPECT_THAT(path(settings_of(6, 6), 2), ElementsAre(6, 6));
}

RC_GTEST_PROP(RestartPolicy, TakesTheLargestAllowedSmallerNumber, ()) {
  const int ranks = *rc::gen::inRange(1, 65);
  const int least = *rc::gen::inRange(1, ranks + 1);
  const int batches = ranks * *rc::gen::inRange(1, 9);
  const RunSettings settings = settings_of(ranks, least, batches);
  const int present = *rc::gen::inRange(least, ranks + 1);
  const int next = ranks_after(settings, present);
  int larger = next + 1;
  if (next == present) {
    larger = least;  // then none below it may be allowed
  } else {
    RC_ASSERT(least <= next && next < present);
    RC_ASSERT(batches % next == 0);
  }
  for (; larger < present; ++larger) RC_ASSERT(batches % larger != 0);
}

TEST(RestartPolicy, DeathsAreRestartedUntilTheRestartsAreUsedUp) {
  const RunSettings settings = settings_of(2, {});
  for (const int code : {1, 3, 7, 128 + 9, 128 + 15}) {
    const TryEnd end{code, "rank 0 died", false};
    EXPECT_EQ(reason_to_stop(settings, end, 0), "");
    EXPECT_EQ(reason_to_stop(settings, end, 2), "");
    EXPECT_THAT(reason_to_stop(settings, end, 3), HasSubstr("used up (3 of 3)"));
  }
}

TEST(RestartPolicy, WhatWouldEndTheSameWayIsNotRestarted) {
  for (const int code : {int{kUsage}, int{kCannotExecute}, int{kNotFound}}) {
    EXPECT_THAT(reason_to_stop(settings_of(2, {}), {code, "rank 0 ended", false}, 0),
                HasSubstr("code " + std::to_string(code)));
  }
}

TEST(RestartPolicy, WhatWasAskedToEndIsNotRestarted) {
  EXPECT_THAT(reason_to_stop(settings_of(2, {}), {128 + 9, "rank 0 died", true}, 0),
              HasSubstr("asked to end"));
}

}  // namespace
}  // namespace zero::cli
