#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/conformance/faults/cases.h"
#include "tests/conformance/faults/processes.h"

// Ranks as processes: killed, stopped, gone.

namespace zero::fault_test {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Test;
using Clock = std::chrono::steady_clock;

milliseconds since(Clock::time_point start) {
  return std::chrono::duration_cast<milliseconds>(Clock::now() - start);
}

void leave_in_good_order(const std::string& program) {
  Processes ranks(program, 3, kLong);
  ranks.tell_all("reduce_scatter 100000");
  EXPECT_THAT(ranks.answers(), Each("ok"));
  ranks.tell_all("shutdown");
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(ranks[rank].answer(), "ok");
    EXPECT_EQ(ranks[rank].finish(), 0);
  }
}

void killed_in_the_middle_is_named_by_the_others_within_a_second(const std::string& program) {
  Processes ranks(program, 3, kLong);
  ranks[0].tell("reduce_scatter" + kManyElements);
  ranks[1].tell("stall" + kManyElements);
  ranks[2].tell("reduce_scatter" + kManyElements);
  ASSERT_EQ(ranks[1].answer(), "middle");
  const auto start = Clock::now();
  ranks[1].signal(SIGKILL);
  for (const int rank : {0, 2}) {
    EXPECT_THAT(ranks[rank].answer(),
                AllOf(HasSubstr("rank 1 died"), HasSubstr("#2"), HasSubstr("bucket 7")));
    const milliseconds elapsed = since(start);
    EXPECT_LT(elapsed, milliseconds(1000));
    Test::RecordProperty("milliseconds_on_rank_" + std::to_string(rank),
                         std::to_string(elapsed.count()));
    std::cout << "rank " << rank << " heard of the death after " << elapsed.count() << " ms\n";
  }
}

void killed_between_calls_is_named_by_the_next_call(const std::string& program) {
  Processes ranks(program, 3, kLong);
  ranks[2].signal(SIGKILL);
  ranks[2].finish();
  for (const int rank : {0, 1}) ranks[rank].tell("barrier");
  for (const int rank : {0, 1}) EXPECT_THAT(ranks[rank].answer(), HasSubstr("rank 2 died"));
  for (const int rank : {0, 1}) EXPECT_EQ(ranks[rank].finish(), 0) << "SIGPIPE?";
}

void stopped_in_the_middle_is_named_at_the_timeout(const std::string& program) {
  constexpr milliseconds kTimeout{1500};
  Processes ranks(program, 3, kTimeout);
  const auto start = Clock::now();
  ranks[0].tell("stall" + kManyElements);
  ranks[1].tell("reduce_scatter" + kManyElements);
  ranks[2].tell("reduce_scatter" + kManyElements);
  ASSERT_EQ(ranks[0].answer(), "middle");
  const auto middle = Clock::now();
  ranks[0].signal(SIGSTOP);
  for (const int rank : {1, 2}) {
    EXPECT_THAT(ranks[rank].answer(), AllOf(HasSubstr("rank 0 fell silent"), HasSubstr("#2"),
                                            HasSubstr("bucket 7"), HasSubstr("1500 ms")));
  }
  EXPECT_GE(since(start), kTimeout);
  EXPECT_LT(since(middle), kTimeout + milliseconds(1500));
  std::cout << "the error came after " << since(middle).count() << " ms of " << kTimeout.count()
            << "\n";
  ranks[0].tell("go on");
  ranks[0].signal(SIGCONT);
  EXPECT_THAT(ranks[0].answer(), HasSubstr("rank 0 fell silent")) << "it learns why it was left";
}

void stopped_between_calls_is_named_at_the_timeout(const std::string& program) {
  constexpr milliseconds kTimeout{1000};
  Processes ranks(program, 3, kTimeout);
  ranks.tell_all("barrier");
  ASSERT_THAT(ranks.answers(), Each("ok"));
  ranks[1].signal(SIGSTOP);
  const auto start = Clock::now();
  for (const int rank : {0, 2}) ranks[rank].tell("barrier");
  for (const int rank : {0, 2}) {
    EXPECT_THAT(ranks[rank].answer(),
                AllOf(HasSubstr("rank 1 did not come to collective #2, barrier [step]"),
                      HasSubstr("1000 ms")));
  }
  EXPECT_GE(since(start), kTimeout);
  EXPECT_LT(since(start), kTimeout + milliseconds(1500));
}

void exit_without_shutdown_is_a_death(const std::string& program) {
  Processes ranks(program, 3, kLong);
  for (const int rank : {0, 1}) ranks[rank].tell("barrier");
  const auto start = Clock::now();
  ranks[2].tell("vanish");
  for (const int rank : {0, 1}) EXPECT_THAT(ranks[rank].answer(), HasSubstr("rank 2 died"));
  EXPECT_LT(since(start), milliseconds(1000));
}

void abort_on_one_rank_reaches_the_others(const std::string& program) {
  Processes ranks(program, 3, kLong);
  for (const int rank : {0, 1}) ranks[rank].tell("barrier");
  const auto start = Clock::now();
  ranks[2].tell("abort loss is NaN");
  for (const int rank : {0, 1}) {
    EXPECT_THAT(ranks[rank].answer(), HasSubstr("rank 2 aborted: loss is NaN"));
  }
  EXPECT_LT(since(start), milliseconds(1000));
}

void eight_ranks_on_fewer_cores_add_up(const std::string& program) {
  Processes ranks(program, 8, kLong);
  for (const char* command : {"reduce_scatter 100001", "split", "reduce_scatter 50000"}) {
    ranks.tell_all(command);
    EXPECT_THAT(ranks.answers(), Each("ok")) << command;
  }
  ranks.tell_all("shutdown");
  EXPECT_THAT(ranks.answers(), Each("ok"));
}

void a_death_is_named_by_the_ranks_of_a_split_in_their_numbers(const std::string& program) {
  Processes ranks(program, 3, kLong);
  ranks.tell_all("split");
  EXPECT_THAT(ranks.answers(), Each("ok"));
  for (const int rank : {1, 2}) ranks[rank].tell("barrier");
  const auto start = Clock::now();
  ranks[0].signal(SIGKILL);
  for (const int rank : {1, 2}) EXPECT_THAT(ranks[rank].answer(), HasSubstr("rank 2 died"));
  EXPECT_LT(since(start), milliseconds(1000));
}

}  // namespace

std::vector<Case<std::string>> process_cases() {
  return {
      {"LeaveInGoodOrder", leave_in_good_order},
      {"KilledInTheMiddleIsNamedByTheOthersWithinASecond",
       killed_in_the_middle_is_named_by_the_others_within_a_second},
      {"KilledBetweenCallsIsNamedByTheNextCall", killed_between_calls_is_named_by_the_next_call},
      {"StoppedInTheMiddleIsNamedAtTheTimeout", stopped_in_the_middle_is_named_at_the_timeout},
      {"StoppedBetweenCallsIsNamedAtTheTimeout", stopped_between_calls_is_named_at_the_timeout},
      {"ExitWithoutShutdownIsADeath", exit_without_shutdown_is_a_death},
      {"AbortOnOneRankReachesTheOthers", abort_on_one_rank_reaches_the_others},
      {"EightRanksOnFewerCoresAddUp", eight_ranks_on_fewer_cores_add_up},
      {"ADeathIsNamedByTheRanksOfASplitInTheirNumbers",
       a_death_is_named_by_the_ranks_of_a_split_in_their_numbers}};
}

}  // namespace zero::fault_test
