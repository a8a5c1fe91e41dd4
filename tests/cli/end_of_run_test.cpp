#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "tests/cli/launched.h"

namespace zero::cli::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Clock = std::chrono::steady_clock;

// "exec" makes the shell's pid the sleeper's.
const std::string kSleep = "echo pid $$; exec sleep 600";

TEST(EndOfRun, ZeroOnlyIfAllRanksExitWithZero) {
  EXPECT_EQ(zero_run({"-n", "3", "--", "true"}).code, 0);
  const Result result =
      zero_run({"-n", "3", "--", "sh", "-c", "[ $RANK = 1 ] && exit 3; exec sleep 600"});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, HasSubstr("rank 1 exited with code 3"));
}

TEST(EndOfRun, TheFirstFailureGivesTheCodeNotWhatFollowsFromIt) {
  const Result result = zero_run({"-n", "2", "--", "sh", "-c",
                                  "[ $RANK = 1 ] && exit 5; trap 'exit 7' TERM; sleep 600 & wait"});
  EXPECT_EQ(result.code, 5);
  EXPECT_THAT(result.err, Not(HasSubstr("rank 0")));
}

TEST(EndOfRun, OfThoseFoundDeadAtOnceTheCauseIsNamed) {
  const auto name_of = [](const std::string& script) {
    Launched launched(shell_ranks(2, "trap '" + script +
                                         "' USR1; echo pid $$; "
                                         "while :; do sleep 0.02; done"));
    const auto pids = launched.wait_for_pids(2);
    launched.signal(SIGSTOP);
    for (const pid_t pid : pids) ::kill(pid, SIGUSR1);
    for (const pid_t pid : pids) EXPECT_TRUE(is_gone(pid)) << pid;
    launched.signal(SIGCONT);
    return launched.wait().err;
  };
  EXPECT_EQ(name_of("[ $RANK = 1 ] && kill -KILL $$; exit 3"),
            "zero run: rank 1 was killed by SIGKILL\n");
  EXPECT_EQ(name_of("[ $RANK = 1 ] && exit 7; exit 3"), "zero run: rank 1 exited with code 7\n");
  EXPECT_EQ(name_of("[ $RANK = 1 ] && exit 7; kill -ABRT $$"),
            "zero run: rank 1 exited with code 7\n");
}

TEST(EndOfRun, ARankFoundKilledAfterOneThatLostItsPeerIsTakenForTheCause) {
  Result result;
  // The killing comes too late where the machine stands still for half a second: then once more.
  for (int i = 0; i < 5 && result.code != 128 + 9; ++i) {
    Launched launched(shell_ranks(2, "[ $RANK = 1 ] || exit 3; echo pid $$; exec sleep 600"));
    const pid_t pid = launched.wait_for_pids(1).front();
    ASSERT_TRUE(launched.wait_for_output("rank 0 exited with code 3; taking the others down"));
    ::kill(pid, SIGKILL);
    result = launched.wait();
  }
  EXPECT_EQ(result.code, 128 + 9);
  EXPECT_THAT(result.err, HasSubstr("rank 1 was killed by SIGKILL; this is taken for the cause"));
}

TEST(EndOfRun, ARankThatIsDoneEarlyIsNoFailure) {
  const Result result =
      zero_run({"-n", "2", "--", "sh", "-c", "[ $RANK = 0 ] && exit 0; sleep 0.7; echo late"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "[1] late\n");
}

TEST(EndOfRun, AKilledRankIsNamedAndTheOthersAreGoneWithinTwoSeconds) {
  Launched launched(shell_ranks(3, kSleep));
  const auto pids = launched.wait_for_pids(3);
  const auto start = Clock::now();
  ::kill(pids[1], SIGKILL);
  const Result result = launched.wait();
  EXPECT_LT(Clock::now() - start, 2s);
  EXPECT_EQ(result.code, 128 + 9);
  EXPECT_THAT(result.err, AllOf(HasSubstr("was killed by SIGKILL"), HasSubstr("rank ")));
  for (const pid_t pid : pids) EXPECT_TRUE(is_gone(pid, 0ms)) << pid;
}

TEST(EndOfRun, OthersHaveTimeToSayWhatTheySaw) {
  const Result result =
      zero_run({"-n", "2", "--", "sh", "-c",
                "[ $RANK = 1 ] && exit 1; sleep 0.2; echo peer lost >&2; exec sleep 600"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("[0] peer lost"));
}

TEST(EndOfRun, ARankThatIgnoresTerminateIsKilledAllTheSame) {
  Launched launched(shell_ranks(2,
                                "trap '' TERM INT; echo pid $$; if [ $RANK = 1 ]; then sleep 0.1; "
                                "exit 4; fi; while :; do sleep 600; done"));
  const auto pids = launched.wait_for_pids(2);
  const auto start = Clock::now();
  const Result result = launched.wait();
  EXPECT_LT(Clock::now() - start, 2s);
  EXPECT_EQ(result.code, 4);
  for (const pid_t pid : pids) EXPECT_TRUE(is_gone(pid, 0ms)) << pid;
}

TEST(EndOfRun, GrandchildrenDieAlsoInGroupsOfTheirOwn) {
  Launched launched(shell_ranks(2,
                                "sh -c 'echo pid $$; exec sleep 600' & "
                                "setsid sh -c 'echo pid $$; exec sleep 600' & "
                                "while [ ! -e /proc/$! ]; do :; done; echo ready; "
                                "trap 'exit 6' USR1; while :; do sleep 0.05; done"));
  const auto pids = launched.wait_for_pids(4);
  launched.signal(SIGUSR1);
  const Result result = launched.wait();
  EXPECT_EQ(result.code, 6);
  for (const pid_t pid : pids) EXPECT_TRUE(is_gone(pid, 0ms)) << pid;
}

TEST(EndOfRun, GrandchildrenDieAlsoWhenAllRanksSucceed) {
  Launched launched(shell_ranks(2, "sh -c 'echo pid $$; exec sleep 600' & exit 0"));
  // The shell may end before its child has said its pid: then the child dies unheard.
  const Result result = launched.wait();
  EXPECT_EQ(result.code, 0);
}

TEST(EndOfRun, NothingOutlivesALauncherThatWasKilled) {
  Launched launched(shell_ranks(2, "sh -c 'echo pid $$; exec sleep 600' & echo pid $$; wait"));
  const auto pids = launched.wait_for_pids(4);
  launched.signal(SIGKILL);
  for (const pid_t pid : pids) EXPECT_TRUE(is_gone(pid, 5000ms)) << pid;
  EXPECT_EQ(launched.wait().code, 128 + 9);
}

TEST(EndOfRun, ChildrenThatTheLauncherDidNotStartAreLeftAlone) {
  Launched launched(
      {"sh", "-c", "sleep 600 & echo pid $!; exec " ZERO_COMMAND " run -n 1 -- true"});
  const pid_t stranger = launched.wait_for_pids(1).front();
  EXPECT_TRUE(launched.wait_for_output("pid"));
  const auto deadline = Clock::now() + kDeadline;
  while (!is_gone(launched.pid(), 0ms) && Clock::now() < deadline) {
  }
  EXPECT_FALSE(is_gone(stranger, 0ms));
  ::kill(stranger, SIGKILL);
  EXPECT_EQ(launched.wait().code, 0);
}

}  // namespace
}  // namespace zero::cli::testing
