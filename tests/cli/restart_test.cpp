#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "tests/cli/launched.h"

namespace zero::cli::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kFirstTry = "[ $TORCHELASTIC_RESTART_COUNT = 0 ]";

/// Runs a shell script on `ranks` ranks to its end.
Result run_script(int ranks, const std::vector<std::string>& options, const std::string& script) {
  return Launched(shell_ranks(ranks, script, options)).wait();
}

/// What rank 0 printed, without "[0] ".
std::vector<std::string> lines_of_rank_zero(const Result& result) {
  std::vector<std::string> lines;
  for (const std::string& line : lines_of(result.out)) {
    if (line.substr(0, 4) == "[0] ") lines.push_back(line.substr(4));
  }
  return lines;
}

TEST(Restart, AfterAKilledRankAllStartAgain) {
  Launched launched(shell_ranks(2, "echo pid $$; " + kFirstTry + " && exec sleep 600; exit 0",
                                {"--restarts", "3"}));
  const auto pids = launched.wait_for_pids(2);
  ::kill(pids[1], SIGKILL);
  const Result result = launched.wait();
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(lines_of(result.out).size(), 4u);
  EXPECT_THAT(result.err, HasSubstr("was killed by SIGKILL; restart 1 of 3 with 2 of 2 ranks\n"));
  for (const pid_t pid : pids) EXPECT_TRUE(is_gone(pid, 0ms)) << pid;
}

TEST(Restart, RanksAreToldTheRestartCount) {
  const Result result = run_script(
      2, {"--restarts", "2"},
      "echo try $TORCHELASTIC_RESTART_COUNT; [ $TORCHELASTIC_RESTART_COUNT = 2 ] || exit 7");
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(lines_of_rank_zero(result), ElementsAre("try 0", "try 1", "try 2"));
  EXPECT_THAT(result.err, AllOf(HasSubstr("exited with code 7; restart 1 of 2 with 2 of 2 ranks"),
                                HasSubstr("exited with code 7; restart 2 of 2 with 2 of 2 ranks")));
}

TEST(Restart, WithoutTheOptionADeathIsTheEnd) {
  const Result result = run_script(2, {}, "exit 7");
  EXPECT_EQ(result.code, 7);
  EXPECT_THAT(result.err, Not(HasSubstr("restart")));
}

TEST(Restart, UsedUpGivesTheLastCodeAndSaysSo) {
  const Result result =
      run_script(1, {"--restarts", "2"}, "exit $((10 + TORCHELASTIC_RESTART_COUNT))");
  EXPECT_EQ(result.code, 12);
  EXPECT_THAT(result.err,
              HasSubstr("rank 0 exited with code 12; the restarts are used up (2 of 2)\n"));
}

TEST(Restart, WithFewerRanksWhereTheUserAllowsIt) {
  const auto sizes = [](int ranks, const std::vector<std::string>& options) {
    return lines_of_rank_zero(
        run_script(ranks, options, "[ $RANK = 0 ] && echo $WORLD_SIZE/$LOCAL_WORLD_SIZE; exit 7"));
  };
  EXPECT_THAT(sizes(4, {"--restarts", "3", "--min-ranks", "1"}),
              ElementsAre("4/4", "2/2", "1/1", "1/1"));
  EXPECT_THAT(sizes(6, {"--restarts", "3", "--min-ranks", "1"}),
              ElementsAre("6/6", "3/3", "2/2", "1/1"));
  EXPECT_THAT(sizes(4, {"--restarts", "3", "--min-ranks", "1", "--micro-batches", "12"}),
              ElementsAre("4/4", "3/3", "2/2", "1/1"));
  EXPECT_THAT(sizes(4, {"--restarts", "2", "--min-ranks", "2"}), ElementsAre("4/4", "2/2", "2/2"));
}

TEST(Restart, SaysWithHowManyRanksItGoesOn) {
  const Result result = run_script(4, {"--restarts", "3", "--min-ranks", "1"}, "exit 7");
  EXPECT_THAT(result.err, AllOf(HasSubstr("; restart 1 of 3 with 2 of 4 ranks\n"),
                                HasSubstr("; restart 2 of 3 with 1 of 4 ranks\n"),
                                HasSubstr("; restart 3 of 3 with 1 of 4 ranks\n")));
}

TEST(Restart, NotAfterUsageErrorsNorWithoutAProgram) {
  for (const char* code : {"2", "126", "127"}) {
    const Result result =
        run_script(2, {"--restarts", "3"}, std::string("echo started; exit ") + code);
    EXPECT_EQ(result.code, std::stoi(code));
    EXPECT_THAT(result.err, AllOf(HasSubstr("no restart"), Not(HasSubstr("restart 1"))));
    EXPECT_LE(lines_of(result.out).size(), 2u);
  }
  const Result missing = zero_run({"-n", "2", "--restarts", "3", "--", "/no/such/program"});
  EXPECT_EQ(missing.code, 127);
  EXPECT_THAT(missing.err, AllOf(HasSubstr("no restart"), Not(HasSubstr("restart 1"))));
}

TEST(Restart, NotOnceTheUserHasAskedToEnd) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    Launched launched(
        shell_ranks(2, "trap 'exit 7' INT TERM HUP; echo pid $$; while :; do sleep 0.02; done",
                    {"--restarts", "3"}));
    launched.wait_for_pids(2);
    launched.signal(number);
    const Result result = launched.wait();
    EXPECT_EQ(result.code, 7);
    EXPECT_EQ(lines_of(result.out).size(), 2u);
    EXPECT_THAT(result.err, HasSubstr("no restart, since the run was asked to end"));
  }
}

TEST(Restart, NotWhenAskedToEndWhileTheDeadOnesAreTakenDown) {
  const std::string script = kFirstTry +
                             " || exit 0; if [ $RANK = 1 ]; then trap 'exit 7' USR1; "
                             "else trap '' TERM USR1; fi; echo pid $$; "
                             "while :; do sleep 0.02; done";
  Result result;
  // What is sent comes too late where the machine stands still for a second: then once more.
  for (int i = 0; i < 5; ++i) {
    Launched launched(shell_ranks(2, script, {"--restarts", "3"}));
    launched.wait_for_pids(2);
    launched.signal(SIGUSR1);
    ASSERT_TRUE(launched.wait_for_output("taking the others down"));
    launched.signal(SIGTERM);
    result = launched.wait();  // in time: the grace is for ranks that are well
    if (result.err.find("restart 1 of 3") == std::string::npos) break;
  }
  EXPECT_EQ(result.code, 7);
  EXPECT_THAT(result.err, HasSubstr("no restart, since the run was asked to end"));
}

TEST(Restart, AsksTheNewRanksToEndAndDoesNotStartThirdOnes) {
  const Result result = run_script(2, {"--restarts", "3"},
                                   kFirstTry +
                                       " && exit 7; [ $RANK = 1 ] && kill -TERM $PPID; "
                                       "exec sleep 600");
  EXPECT_EQ(result.code, 128 + 15);
  EXPECT_THAT(result.err, AllOf(HasSubstr("restart 1 of 3"), HasSubstr("asked to end"),
                                Not(HasSubstr("restart 2 of 3"))));
}

TEST(Restart, NothingOfTheFirstTryRunsInTheSecond) {
  Launched launched(shell_ranks(2,
                                kFirstTry + " || { echo second; exec sleep 600; }; "
                                            "sh -c 'echo pid $$; exec sleep 600' & "
                                            "setsid sh -c 'echo pid $$; exec sleep 600' & "
                                            "trap 'exit 6' USR1; echo pid $$; "
                                            "while :; do sleep 0.02; done",
                                {"--restarts", "1"}));
  const auto pids = launched.wait_for_pids(6);
  launched.signal(SIGUSR1);  // which is no request to end
  ASSERT_TRUE(launched.wait_for_output("second"));
  for (const pid_t pid : pids) EXPECT_TRUE(is_gone(pid, 0ms)) << pid;
}

TEST(Restart, NothingOutlivesALauncherThatIsKilledInTheSecondTry) {
  Launched launched(shell_ranks(
      2, kFirstTry + " && exit 7; sh -c 'echo pid $$; exec sleep 600' & echo pid $$; wait",
      {"--restarts", "1"}));
  const auto pids = launched.wait_for_pids(4);
  launched.signal(SIGKILL);
  for (const pid_t pid : pids) EXPECT_TRUE(is_gone(pid, 5000ms)) << pid;
}

TEST(Restart, EachTryHasASecretOfItsOwnWithinOneRun) {
  const Result result =
      run_script(1, {"--restarts", "1"},
                 "echo $ZERO_SECRET; echo $TORCHELASTIC_RUN_ID; " + kFirstTry + " && exit 7");
  const auto lines = lines_of_rank_zero(result);
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0].size(), 64u);
  EXPECT_EQ(lines[2].size(), 64u);
  EXPECT_NE(lines[0], lines[2]);
  EXPECT_EQ(lines[1], lines[3]);
}

TEST(Restart, ShowsTheOutputOfBothTriesWholeAndInOrder) {
  Launched launched(
      shell_ranks(1,
                  "i=0; while [ $i -lt 2000 ]; do echo $TORCHELASTIC_RESTART_COUNT $i; "
                  "i=$((i+1)); done; printf half; " +
                      kFirstTry + " && exit 7; exit 0",
                  {"--restarts", "1"}),
      {}, Streams::kOnePipe);
  const Result result = launched.wait();
  std::vector<std::string> expected;
  const auto expect_try = [&](const std::string& number) {
    for (int i = 0; i < 2000; ++i) expected.push_back("[0] " + number + " " + std::to_string(i));
    expected.push_back("[0] half");
  };
  expect_try("0");
  expected.push_back("zero run: rank 0 exited with code 7");
  expected.push_back("zero run: rank 0 exited with code 7; restart 1 of 1 with 1 of 1 ranks");
  expect_try("1");
  EXPECT_EQ(lines_of(result.out), expected);
}

TEST(Restart, NotWhereNobodyTakesTheOutputAnyMore) {
  Launched launched(shell_ranks(1, "echo started; exec yes", {"--restarts", "3"}));
  ASSERT_TRUE(launched.wait_for_output("started"));
  launched.stop_reading_stdout();
  const Result result = launched.wait();
  EXPECT_EQ(result.code, 128 + 13);
  EXPECT_THAT(result.err, HasSubstr("no restart, since the output goes nowhere"));
}

}  // namespace
}  // namespace zero::cli::testing
