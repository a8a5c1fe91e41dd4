// One rank's disk fails, or one rank dies, at every one of its calls of the file system.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "checkpoint/verify.h"
#include "world.h"

namespace zero::checkpoint {
namespace {

using ::testing::AllOf;
using testing::Fault;
using ::testing::HasSubstr;
using testing::PowerCut;

constexpr int kSize = 3;

/// Calls that each rank makes in a save beside an older checkpoint.
std::vector<std::map<std::string, int>> calls_of_a_save() {
  World world(Flavour::kHdf5, kSize);
  save_together(world, 1);
  world.restart();
  EXPECT_EQ(save_together(world, 2).problem(), "");
  std::vector<std::map<std::string, int>> calls;
  for (int rank = 0; rank < kSize; ++rank) calls.push_back(world.files(rank).calls());
  return calls;
}

/// Life goes on, with the very same stores.
void expect_next_save_works(World& world, std::vector<std::int64_t> there) {
  EXPECT_EQ(save_together(world, 3).problem(), "");
  there.push_back(3);
  EXPECT_EQ(difference_of_steps(*world.fresh_store(), there, kSize), "");
  for (const std::string& name : world.disk().list(kRoot)) {
    EXPECT_TRUE(name.starts_with("step_") || name == "LATEST" || name == ".lock") << name;
  }
}

class ErrorOnOneRank : public ::testing::TestWithParam<std::tuple<int, int>> {};

void fail_at(const Fault& fault, int rank) {
  World world(Flavour::kHdf5, kSize);
  ASSERT_EQ(save_together(world, 1).problem(), "");
  world.restart();
  world.files(rank).set_fault(fault);
  const Ending ending = save_together(world, 2);
  ASSERT_TRUE(world.files(rank).struck());
  world.files(rank).set_fault(Fault{"never", 1});
  std::vector<std::int64_t> there = {1};
  if (!ending.errors[0]) {  // What comes after the commit only warns, and everybody hears of it.
    EXPECT_EQ(ending.problem(), "");
    ASSERT_FALSE(ending.outcomes[2].warnings.empty());
    EXPECT_THAT(ending.outcomes[2].warnings[0], HasSubstr("errno " + std::to_string(fault.code)));
    there.push_back(2);
  } else {
    EXPECT_THAT(ending.common_error(),
                AllOf(HasSubstr("errno " + std::to_string(fault.code)), HasSubstr(kRoot),
                      HasSubstr("step 2, rank " + std::to_string(rank) + ", phase ")));
    EXPECT_TRUE(is_a<IoError>(ending.errors[0]));
    if (is_a<CommitUnknown>(ending.errors[1])) {
      EXPECT_EQ(fault.operation, "fsync_directory");
      there.push_back(2);
    }
  }
  EXPECT_EQ(difference_of_steps(*world.fresh_store(), there, kSize), "");
  expect_next_save_works(world, there);
}

TEST_P(ErrorOnOneRank, IsTheSameErrorOnAllAndTheNextSaveWorks) {
  const auto [rank, code] = GetParam();
  int points = 0;
  const auto calls = calls_of_a_save();
  for (const auto& [operation, count] : calls[static_cast<std::size_t>(rank)]) {
    for (int at = 1; !operation.empty() && at <= count; ++at) {
      SCOPED_TRACE(operation + " " + std::to_string(at));
      fail_at(Fault{operation, at, code, false}, rank);
      ++points;
    }
  }
  EXPECT_GE(points, rank == 0 ? 30 : 5);
}

INSTANTIATE_TEST_SUITE_P(Ranks, ErrorOnOneRank,
                         ::testing::Combine(::testing::Range(0, kSize),
                                            ::testing::Values(ENOSPC, EIO)),
                         [](const auto& each) {
                           return std::string(std::get<1>(each.param) == EIO ? "Eio" : "Enospc") +
                                  "OnRank" + std::to_string(std::get<0>(each.param));
                         });

TEST(ErrorOnOneRank, ThatLeavesTheCommitUnknownIsCommitUnknownOnAll) {
  World world(Flavour::kHdf5, kSize);
  save_together(world, 1);
  world.restart();
  // The second directory that rank 0 syncs is the root, after the rename.
  world.files(0).set_fault(Fault{"fsync_directory", 2, EIO, false});
  const Ending ending = save_together(world, 2);
  for (const auto& error : ending.errors) EXPECT_TRUE(is_a<CommitUnknown>(error));
  EXPECT_THAT(ending.common_error(),
              AllOf(HasSubstr("rank 0, phase commit"), HasSubstr("not known")));
}

TEST(FullDisk, OfOneRankIsReportedBeforeItWrites) {
  World world(Flavour::kHdf5, kSize);
  save_together(world, 1);
  world.restart();
  world.disk().set_free_bytes(1000);
  const Ending ending = save_together(world, 2);
  EXPECT_THAT(ending.common_error(), AllOf(HasSubstr("errno 28"), HasSubstr("phase write"),
                                           HasSubstr("failed besides: 2")));
  EXPECT_EQ(world.files(1).calls()["pwrite"], 0);
  world.disk().set_free_bytes(1 << 30);
  expect_next_save_works(world, {1});
}

class DeathOfOneRank : public ::testing::TestWithParam<int> {};

TEST_P(DeathOfOneRank, AtAnyCallGivesCommErrorOnTheOthersAndTheNewCheckpointIsWholeOrAbsent) {
  const int dying = GetParam();
  const int calls = calls_of_a_save()[static_cast<std::size_t>(dying)][""];
  int with_new = 0;
  for (int at = 1; at <= calls; ++at) {
    SCOPED_TRACE("call " + std::to_string(at));
    World world(Flavour::kHdf5, kSize);
    ASSERT_EQ(save_together(world, 1).problem(), "");
    world.restart();
    world.files(dying).set_fault(Fault{"", at});
    const Ending ending = save_together(world, 2);
    for (int rank = 0; rank < kSize; ++rank) {
      const auto& error = ending.errors[static_cast<std::size_t>(rank)];
      ASSERT_TRUE(rank == dying ? is_a<testing::SimulatedCrash>(error) : is_a<CommError>(error));
      if (rank == dying) continue;
      EXPECT_THAT(zero::testing::message_of(error), HasSubstr("rank " + std::to_string(dying)));
    }
    world.disk().crash(PowerCut::kEverything);  // Locks of dead processes are gone.
    const bool has_new = world.fresh_store()->list().steps.size() == 2;
    with_new += has_new;
    std::vector<std::int64_t> there = {1};
    if (has_new) there.push_back(2);
    ASSERT_EQ(difference_of_steps(*world.fresh_store(), there, kSize), "");
    world.restart();
    expect_next_save_works(world, there);
  }
  EXPECT_EQ(with_new > 0, dying == 0);
  EXPECT_LT(with_new, calls);
}

INSTANTIATE_TEST_SUITE_P(Ranks, DeathOfOneRank, ::testing::Range(0, kSize),
                         [](const auto& each) { return "Rank" + std::to_string(each.param); });

TEST(FailedSave, OfOneRankRemovesNothingThatIsNotItsOwn) {
  World world(Flavour::kHdf5, kSize);
  save_together(world, 1);
  world.restart();
  world.files(2).set_fault(Fault{"fsync", 1, EIO, false});
  save_together(world, 2);
  for (int rank = 1; rank < kSize; ++rank) {
    EXPECT_EQ(world.files(rank).calls()["unlink"], 0);
    EXPECT_EQ(world.files(rank).calls()["remove_directory"], 0);
  }
  EXPECT_GT(world.files(0).calls()["unlink"], 0);
  EXPECT_EQ(world.disk().list(kRoot).size(), 3u);  // step 1, LATEST, .lock
}

}  // namespace
}  // namespace zero::checkpoint
