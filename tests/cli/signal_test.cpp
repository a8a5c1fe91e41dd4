#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "tests/cli/launched.h"

namespace zero::cli::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

// Says its pid once its handlers stand.
std::string catching(const std::string& signal, const std::string& action) {
  return "trap '" + action + "' " + signal + "; echo pid $$; while :; do sleep 0.02; done";
}

class PassedOn : public ::testing::TestWithParam<std::pair<int, const char*>> {};

TEST_P(PassedOn, ToEveryRank) {
  const auto [number, name] = GetParam();
  Launched launched(shell_ranks(3, catching(name, "echo got it; exit 0")));
  const auto pids = launched.wait_for_pids(3);
  launched.signal(number);
  const Result result = launched.wait();
  EXPECT_EQ(result.code, 0) << result.err;
  for (const char* line : {"[0] got it\n", "[1] got it\n", "[2] got it\n"})
    EXPECT_THAT(result.out, HasSubstr(line));
  for (const pid_t pid : pids) EXPECT_TRUE(is_gone(pid, 0ms)) << pid;
}

INSTANTIATE_TEST_SUITE_P(Signals, PassedOn,
                         ::testing::Values(std::pair{SIGINT, "INT"}, std::pair{SIGTERM, "TERM"},
                                           std::pair{SIGHUP, "HUP"}, std::pair{SIGUSR1, "USR1"},
                                           std::pair{SIGUSR2, "USR2"}),
                         [](const auto& each) { return each.param.second; });

TEST(RunSignals, RanksThatTheSignalKillsGiveItsCode) {
  for (const int number : {SIGTERM, SIGINT}) {
    Launched launched(shell_ranks(2, "echo pid $$; exec sleep 600"));
    const auto pids = launched.wait_for_pids(2);
    launched.signal(number);
    EXPECT_EQ(launched.wait().code, 128 + number);
    for (const pid_t pid : pids) EXPECT_TRUE(is_gone(pid, 0ms)) << pid;
  }
}

TEST(RunSignals, ARankHasTimeToFinishAfterTerminate) {
  Launched launched(shell_ranks(2, catching("TERM", "sleep 1.2; echo saved; exit $RANK")));
  launched.wait_for_pids(2);
  launched.signal(SIGTERM);
  const Result result = launched.wait();
  EXPECT_THAT(result.out, HasSubstr("[0] saved"));
  EXPECT_THAT(result.out, HasSubstr("[1] saved"));
  EXPECT_EQ(result.code, 1);
}

TEST(RunSignals, ARankThatIgnoresTerminateIsKilledAfterTheGracePeriod) {
  Launched launched(
      shell_ranks(2, "trap '' TERM; echo pid $$; while :; do sleep 600; done", {"--grace", "1"}));
  const auto pids = launched.wait_for_pids(2);
  const auto start = Clock::now();
  launched.signal(SIGTERM);
  const Result result = launched.wait();
  EXPECT_EQ(result.code, 128 + 9);
  EXPECT_THAT(result.err, HasSubstr("waiting up to 1 s for the ranks"));
  EXPECT_GE(Clock::now() - start, 1s);
  EXPECT_LT(Clock::now() - start, 4s);
  for (const pid_t pid : pids) EXPECT_TRUE(is_gone(pid, 0ms)) << pid;
}

TEST(RunSignals, RanksHaveThirtySecondsUnlessTold) {
  Launched launched(shell_ranks(1, catching("TERM", "exit 0")));
  launched.wait_for_pids(1);
  launched.signal(SIGTERM);
  const Result result = launched.wait();
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.err, HasSubstr("waiting up to 30 s for the ranks"));
}

TEST(RunSignals, ASecondSignalKillsAtOnce) {
  Launched launched(shell_ranks(2, "trap '' INT; echo pid $$; while :; do sleep 600; done"));
  const auto pids = launched.wait_for_pids(2);
  const auto start = Clock::now();
  launched.signal(SIGINT);
  ASSERT_TRUE(launched.wait_for_output("a second signal kills"));
  launched.signal(SIGINT);
  const Result result = launched.wait();
  EXPECT_EQ(result.code, 128 + 9);
  EXPECT_LT(Clock::now() - start, 4s);
  for (const pid_t pid : pids) EXPECT_TRUE(is_gone(pid, 0ms)) << pid;
}

TEST(RunSignals, ARunThatIsBeingTakenDownIsNotProlongedByARequestToEnd) {
  // Rank 0 hears that it is to be taken down and has the launcher asked to end, once.
  const Result result = Launched(shell_ranks(2,
                                             "[ $RANK = 1 ] && exit 7; "
                                             "trap \"trap '' TERM; kill -TERM $PPID\" TERM; "
                                             "while :; do sleep 0.02; done"))
                            .wait(10s);
  EXPECT_EQ(result.code, 7);
}

TEST(RunSignals, AStoppedRankIsKilledToo) {
  Launched launched(shell_ranks(2, "echo pid $$; exec sleep 600"));
  const auto pids = launched.wait_for_pids(2);
  ::kill(pids[0], SIGSTOP);
  ::kill(pids[1], SIGKILL);
  EXPECT_EQ(launched.wait().code, 128 + 9);
  EXPECT_TRUE(is_gone(pids[0], 0ms));
}

}  // namespace
}  // namespace zero::cli::testing
