// Which checkpoints go, which stay, and what happens when removing fails.

#include "checkpoint/ranks/retention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "world.h"

namespace zero::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::Fault;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Listing listing_of(const std::vector<std::int64_t>& steps, const std::string& run = "a") {
  Listing listing;
  for (const std::int64_t step : steps) listing.steps.push_back({step, run, "", 1, 0, 0});
  return listing;
}

TEST(StepsToRemove, AreAllButTheNewest) {
  const Listing listing = listing_of({1, 2, 3, 4, 5});
  EXPECT_THAT(steps_to_remove(listing, {}), ElementsAre(1, 2));
  EXPECT_THAT(steps_to_remove(listing, {.keep = 1}), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(steps_to_remove(listing, {.keep = 0}), IsEmpty());
  EXPECT_THAT(steps_to_remove(listing, {.keep = 9}), IsEmpty());
  EXPECT_THAT(steps_to_remove({}, {.keep = 1}), IsEmpty());
}

TEST(StepsToRemove, AreNeitherMilestonesNorPinned) {
  const Listing listing = listing_of({0, 50, 100, 150, 200, 210});
  EXPECT_THAT(steps_to_remove(listing, {.keep = 1, .keep_every = 100}), ElementsAre(50, 150));
  EXPECT_THAT(steps_to_remove(listing, {.keep = 1, .pinned = {50, 77}}),
              ElementsAre(0, 100, 150, 200));
}

TEST(StepsToRemove, AreOfTheRunOnly) {
  Listing listing = listing_of({1, 2, 3});
  listing.steps.push_back({4, "b", "", 1, 0, 0});
  listing.steps.push_back({5, "b", "", 1, 0, 0});
  EXPECT_THAT(steps_to_remove(listing, {.keep = 1, .run_id = "a"}), ElementsAre(1, 2));
  EXPECT_THAT(steps_to_remove(listing, {.keep = 1, .run_id = "b"}), ElementsAre(4));
  EXPECT_THAT(steps_to_remove(listing, {.keep = 1, .run_id = "c"}), IsEmpty());
  EXPECT_THAT(steps_to_remove(listing, {.keep = 1}), ElementsAre(1, 2, 3, 4));
}

TEST(StepsToRemove, DoNotCountDamagedOnes) {
  Listing listing = listing_of({1, 2});
  listing.damaged = {{"step_000000000003", "torn"}, {"step_000000000000", "torn"}};
  EXPECT_THAT(steps_to_remove(listing, {.keep = 1}), ElementsAre(1));
}

TEST(StepsToRemove, DoNotCountThoseSetAsideNorHoldThem) {
  const Listing listing = listing_of({50, 100, 150, 200, 300});
  EXPECT_THAT(steps_to_remove(listing, {.keep = 1, .set_aside = {200, 300, 7}}),
              ElementsAre(50, 100));
  EXPECT_THAT(steps_to_remove(listing, {.keep = 2, .set_aside = {50, 200}}), ElementsAre(100));
}

TEST(StepsToRemove, NegativeRulesAreRefused) {
  EXPECT_THROW(steps_to_remove({}, {.keep = -1}), ContractError);
  EXPECT_THROW(steps_to_remove({}, {.keep_every = -1}), ContractError);
}

RC_GTEST_PROP(StepsToRemove, NeverHoldTheNewestAndKeepAtLeastAsManyAsAsked, ()) {
  const auto steps = *rc::gen::arbitrary<std::set<std::uint16_t>>();
  const auto pinned = *rc::gen::arbitrary<std::vector<std::uint16_t>>();
  const RetentionRule rule{*rc::gen::inRange<std::int64_t>(0, 6),
                           *rc::gen::inRange<std::int64_t>(0, 10),
                           "",
                           {pinned.begin(), pinned.end()}};
  const auto removed = steps_to_remove(listing_of({steps.begin(), steps.end()}), rule);
  RC_ASSERT(std::is_sorted(removed.begin(), removed.end()));
  RC_ASSERT(steps.size() - removed.size() >=
            std::min<std::size_t>(steps.size(), static_cast<std::size_t>(rule.keep)));
  for (const std::int64_t step : removed) {
    RC_ASSERT(step != std::int64_t{*steps.rbegin()});
    RC_ASSERT(std::count(rule.pinned.begin(), rule.pinned.end(), step) == 0);
    const bool milestone = rule.keep_every > 0 && step % rule.keep_every == 0;
    RC_ASSERT(!milestone);
  }
}

class Retention : public ::testing::TestWithParam<Flavour> {
 protected:
  World world_{GetParam(), 2};
};

INSTANTIATE_TEST_SUITE_P(Stores, Retention, ::testing::Values(Flavour::kMemory, Flavour::kHdf5),
                         [](const auto& each) {
                           return each.param == Flavour::kMemory ? "Memory" : "Hdf5";
                         });

TEST_P(Retention, LeavesWhatTheRuleKeepsAndAllOfItWhole) {
  for (std::int64_t step = 1; step <= 7; ++step) {
    ASSERT_EQ(save_together(world_, step).problem(), "");
    const Removal removal =
        apply_retention(*world_.store(), {.keep = 2, .keep_every = 3, .pinned = {1}});
    EXPECT_THAT(removal.problems, IsEmpty());
    EXPECT_EQ(removal.removed, step == 4   ? std::vector<std::int64_t>{2}
                               : step == 6 ? std::vector<std::int64_t>{4}
                               : step == 7 ? std::vector<std::int64_t>{5}
                                           : std::vector<std::int64_t>{});
  }
  EXPECT_EQ(difference_of_steps(*world_.fresh_store(), {1, 3, 6, 7}, 2), "");
}

TEST_P(Retention, AfterAFailedSaveTouchesNothing) {
  save_together(world_, 1);
  save_together(world_, 2);
  const Ending ending = save_together(world_, 3, [](int rank, Input& input) {
    if (rank == 1) input.part.state.states[0].pieces[0] = {};
  });
  ASSERT_NE(ending.common_error(), "");
  EXPECT_THAT(apply_retention(*world_.store(), {.keep = 1}).problems, IsEmpty());
  EXPECT_EQ(difference_of_steps(*world_.fresh_store(), {2}, 2), "");
  EXPECT_EQ(save_together(world_, 3).problem(), "");
}

TEST_P(Retention, DuringASaveRemovesNothingAndSaysSo) {
  for (const std::int64_t step : {1, 2}) save_together(world_, step);
  const Sample sample(3, 2);
  const auto writer = world_.fresh_store()->begin(sample.common(), 2);
  const Removal removal = apply_retention(*world_.store(), {.keep = 1});
  EXPECT_THAT(removal.removed, IsEmpty());
  ASSERT_EQ(removal.problems.size(), 1u);
  EXPECT_THAT(removal.problems[0], HasSubstr("step 1: "));
  EXPECT_EQ(difference_of_steps(*world_.fresh_store(), {1, 2}, 2), "");
}

TEST(FailingRemoval, IsToldStepByStepAndTheNewestStays) {
  World probe(Flavour::kHdf5, 2);
  for (const std::int64_t step : {1, 2, 3}) save_together(probe, step);
  probe.restart();
  apply_retention(*probe.store(), {.keep = 1});
  int told = 0;
  for (const auto& [operation, count] : probe.files(0).calls()) {
    for (int at = 1; !operation.empty() && at <= count; ++at) {
      SCOPED_TRACE(operation + " " + std::to_string(at));
      World world(Flavour::kHdf5, 2);
      for (const std::int64_t step : {1, 2, 3}) save_together(world, step);
      world.restart();
      world.files(0).set_fault(Fault{operation, at, EIO, false});
      const auto [removed, problems] = apply_retention(*world.store(), {.keep = 1});
      told += !problems.empty();
      for (const std::string& problem : problems) EXPECT_THAT(problem, HasSubstr("errno 5"));
      const Listing listing = world.fresh_store()->list();
      EXPECT_THAT(listing.damaged, IsEmpty());
      ASSERT_FALSE(listing.steps.empty());
      EXPECT_EQ(listing.steps.back().step, 3);
      EXPECT_EQ(difference(*world.fresh_store()->open(3), 3, 2), "");
      // The next save removes what is left under other names.
      world.files(0).set_fault(Fault{"never", 1});
      EXPECT_EQ(save_together(world, 4).problem(), "");
      for (const std::string& name : world.disk().list(kRoot)) {
        EXPECT_FALSE(name.starts_with(".del-")) << name;
      }
    }
  }
  EXPECT_GT(told, 5);
}

}  // namespace
}  // namespace zero::checkpoint
