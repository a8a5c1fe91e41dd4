#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "tests/cli/checkpoint_root.h"

namespace zero::cli::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Stop {
  int signal;
  const char* name;
};

/// Runs `zero` and raises the signal right before its `count`th call of `call`.
Result stopped(std::vector<std::string> arguments, int signal, const std::string& call, int count) {
  arguments.insert(arguments.begin(), ZERO_COMMAND);
  return Launched(std::move(arguments), {{"LD_PRELOAD", SIGNAL_AT_CALL},
                                         {"ZERO_TEST_SIGNAL", std::to_string(signal)},
                                         {"ZERO_TEST_CALL", call},
                                         {"ZERO_TEST_COUNT", std::to_string(count)}})
      .wait();
}

class Interrupt : public ::testing::TestWithParam<Stop> {
 protected:
  static void SetUpTestSuite() {
    folder_ = new Folder;
    save_large(folder_->path("large"), 24);
  }
  static void TearDownTestSuite() { delete folder_; }
  static std::string large() { return folder_->path("large"); }

  static Folder* folder_;
};

Folder* Interrupt::folder_ = nullptr;

TEST_P(Interrupt, InTheMidstOfReshardingLeavesNothing) {
  for (const char* call : {"pread", "pwrite"}) {
    Folder folder;
    const std::string to = folder.path("to");
    const Result result = stopped({"reshard", large(), to, "--world", "3", "--memory", "1M"},
                                  GetParam().signal, call, 2);
    expect_one_complaint(result, 128 + GetParam().signal, "interrupted");
    if (!std::filesystem::exists(to)) continue;
    for (const std::string& name : names_in(to)) EXPECT_EQ(name, ".lock") << call;
  }
}

TEST_P(Interrupt, InTheMidstOfExportingLeavesNothing) {
  Folder folder;
  const Result result =
      stopped({"export", large(), folder.path("m.safetensors")}, GetParam().signal, "pwrite", 2);
  expect_one_complaint(result, 128 + GetParam().signal, "interrupted");
  EXPECT_THAT(names_in(folder.path()), IsEmpty());
}

TEST_P(Interrupt, StopsVerifyAndDiff) {
  expect_one_complaint(stopped({"verify", large()}, GetParam().signal, "pread", 2),
                       128 + GetParam().signal, "interrupted");
  expect_one_complaint(stopped({"diff", large(), large()}, GetParam().signal, "pread", 2),
                       128 + GetParam().signal, "interrupted");
}

INSTANTIATE_TEST_SUITE_P(Signals, Interrupt,
                         ::testing::Values(Stop{SIGINT, "INT"}, Stop{SIGTERM, "TERM"},
                                           Stop{SIGHUP, "HUP"}),
                         [](const auto& each) { return each.param.name; });

TEST(InterruptOfGc, ComesBetweenTwoCheckpoints) {
  Folder folder;
  const std::string root = save_steps(folder.path("r"), {1, 2, 3, 4});
  const Result result = stopped({"gc", root, "--keep", "1", "--apply"}, SIGTERM, "unlink", 2);
  EXPECT_EQ(result.code, 128 + SIGTERM) << result.err;
  const auto left = zero_json({"list", root});
  EXPECT_EQ(left["steps"].size(), 3u) << "the removal under way was finished";
  EXPECT_EQ(left["damaged"].size() + left["leftovers"].size(), 0u);
  EXPECT_EQ(zero({"verify", root}).code, 0);
}

TEST(InterruptOfNothing, IsIgnoredWhereItWasIgnored) {
  Folder folder;
  const std::string root = save_large(folder.path("r"), 8);
  const Result result =
      Launched({"sh", "-c", "trap '' INT; exec \"$0\" verify " + root, ZERO_COMMAND},
               {{"LD_PRELOAD", SIGNAL_AT_CALL},
                {"ZERO_TEST_SIGNAL", std::to_string(SIGINT)},
                {"ZERO_TEST_CALL", "pread"},
                {"ZERO_TEST_COUNT", "2"}})
          .wait();
  EXPECT_EQ(result.code, 0) << result.err;
}

TEST(InterruptOnATerminal, TakesTheProgressBarAway) {
  Folder folder;
  save_large(folder.path("r"), 8);
  Launched launched({ZERO_COMMAND, "verify", folder.path("r")},
                    {{"TERM", "xterm"},
                     {"LD_PRELOAD", SIGNAL_AT_CALL},
                     {"ZERO_TEST_SIGNAL", std::to_string(SIGINT)},
                     {"ZERO_TEST_CALL", "pread"},
                     {"ZERO_TEST_COUNT", "2"}},
                    Streams::kTerminal);
  const Result result = launched.wait();
  EXPECT_EQ(result.code, 130);
  EXPECT_THAT(result.out, HasSubstr("\r\033[Kzero: interrupted"));
}

}  // namespace
}  // namespace zero::cli::testing
