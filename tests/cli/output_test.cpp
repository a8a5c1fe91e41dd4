#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/cli/launched.h"

namespace zero::cli::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(RunOutput, KeepsStdoutAndStderrApartAndFlushesUnfinishedLines) {
  const Result result = zero_run(
      {"-n", "1", "--", "sh", "-c", "echo out; echo err >&2; printf half; printf halb >&2"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "[0] out\n[0] half\n");
  EXPECT_EQ(result.err, "[0] err\n[0] halb\n");
}

void expect_whole_lines(const std::string& text) {
  std::map<std::string, int> next;
  for (const std::string& line : lines_of(text)) {
    ASSERT_GT(line.size(), 4u) << line;
    const std::string rank = line.substr(0, 4);
    const std::string expected = std::to_string(next[rank]) + " " + std::string(200, 'x') + " end";
    ASSERT_EQ(line.substr(4), expected);
    ++next[rank];
  }
  EXPECT_EQ(next, (std::map<std::string, int>{
                      {"[0] ", 1000}, {"[1] ", 1000}, {"[2] ", 1000}, {"[3] ", 1000}}));
}

const std::string kThousandLines =
    "x=$(printf '%0200d' 0 | tr 0 x); i=0; while [ $i -lt 1000 ]; do echo \"$i $x end\"; "
    "i=$((i+1)); done";

TEST(RunOutput, NoLineIsTornWhenFourRanksWriteAThousandEach) {
  const Result result = zero_run({"-n", "4", "--", "sh", "-c", kThousandLines});
  EXPECT_EQ(result.code, 0);
  expect_whole_lines(result.out);
}

TEST(RunOutput, NoLineIsTornWhereStdoutAndStderrAreOnePipe) {
  Launched launched(
      shell_ranks(4, "if [ $((RANK % 2)) = 0 ]; then exec >&2; fi; " + kThousandLines), {},
      Streams::kOnePipe);
  const Result result = launched.wait();
  EXPECT_EQ(result.code, 0);
  expect_whole_lines(result.out);
}

TEST(RunOutput, LinesLongerThanAPipeTakesAtOnceAreNotTornInOnePipeEither) {
  const std::string script =
      "[ $RANK = 0 ] && exec >&2; x=$(printf '%020000d' 0); i=0; "
      "while [ $i -lt 50 ]; do echo $x; i=$((i+1)); done";
  Launched launched(shell_ranks(2, script), {}, Streams::kOnePipe);
  const Result result = launched.wait();
  EXPECT_EQ(result.code, 0);
  const auto lines = lines_of(result.out);
  EXPECT_EQ(lines.size(), 100u);
  for (const std::string& line : lines) {
    ASSERT_EQ(line.substr(4), std::string(20000, '0'));
    ASSERT_THAT(line.substr(0, 4), ::testing::AnyOf("[0] ", "[1] "));
  }
}

TEST(RunOutput, ProgressLinesAreDroppedWhereThereIsNoTerminal) {
  const Result result =
      zero_run({"-n", "1", "--", "sh", "-c", "printf '1%%\\r2%%\\rdone\\n3%%\\r'"});
  EXPECT_EQ(result.out, "[0] done\n");
}

TEST(RunOutput, ProgressLinesAreDrawnOverEachOtherOnATerminal) {
  Launched launched(
      shell_ranks(1, "printf '1%%\\r'; printf 'done\\n'; echo terminal=$ZERO_RUN_TERMINAL"),
      {{"NO_COLOR", "1"}}, Streams::kTerminal);
  const Result result = launched.wait();
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "\r\033[K[0] 1%\r\033[K[0] done\r\n[0] terminal=1\r\n");
}

TEST(RunOutput, IsColouredOnATerminalOnlyAndNotWithNoColor) {
  const auto output = [](Streams streams, std::map<std::string, std::string> environment) {
    return Launched(shell_ranks(1, "echo x"), std::move(environment), streams).wait().out;
  };
  EXPECT_EQ(output(Streams::kTerminal, {{"NO_COLOR", ""}}), "\033[31m[0] \033[0mx\r\n");
  EXPECT_THAT(output(Streams::kTerminal, {{"NO_COLOR", "1"}}), Not(HasSubstr("\033")));
  EXPECT_THAT(output(Streams::kPipes, {{"NO_COLOR", ""}}), Not(HasSubstr("\033")));
}

/// `zero run` of one rank as a shell starts it, with these redirections.
Result redirected(const std::string& script, const std::string& redirections) {
  return Launched({"sh", "-c", "exec \"$0\" run -n 1 -- sh -c '" + script + "' " + redirections,
                   ZERO_COMMAND})
      .wait();
}

TEST(RunOutput, GoesNowhereWhereStreamsAreClosed) {
  EXPECT_EQ(redirected("echo x; exit 7", ">&-").code, 7);
  EXPECT_EQ(redirected("echo x >&2; exit 7", "2>&-").code, 7);
  EXPECT_EQ(redirected("echo x; echo y >&2; exit 7", "<&- >&- 2>&-").code, 7);
}

TEST(RunOutput, ThatAFullDiskLosesIsAnError) {
  const Result result = redirected("echo x", ">/dev/full");
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, HasSubstr("No space left on device"));
  EXPECT_EQ(redirected("echo x; exit 7", ">/dev/full").code, 7);
}

TEST(RunOutput, RanksSeeABrokenPipeWhenNobodyReadsAnyMore) {
  Launched launched(shell_ranks(2, "echo started; exec yes"));
  ASSERT_TRUE(launched.wait_for_output("started"));
  launched.stop_reading_stdout();
  const Result result = launched.wait();
  EXPECT_EQ(result.code, 128 + 13);
  EXPECT_THAT(result.err, HasSubstr("was killed by SIGPIPE"));
}

}  // namespace
}  // namespace zero::cli::testing
