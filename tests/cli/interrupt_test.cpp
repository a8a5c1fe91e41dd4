#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstring>

#include "tests/cli/checkpoint_root.h"

namespace zero::cli::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Runs `zero` and raises the signal right before its `count`th call of `call`.
Result stopped(std::vector<std::string> arguments, int signal, const std::string& call, int count) {
  arguments.insert(arguments.begin(), ZERO_COMMAND);
  return Launched(std::move(arguments), {{"LD_PRELOAD", SIGNAL_AT_CALL},
                                         {"ZERO_TEST_SIGNAL", std::to_string(signal)},
                                         {"ZERO_TEST_CALL", call},
                                         {"ZERO_TEST_COUNT", std::to_string(count)}})
      .wait();
}

class Interrupt : public ::testing::TestWithParam<int> {
 protected:
  static void SetUpTestSuite() {
    folder_ = new Folder;
    save_large((*folder_) / "large", 24);
  }
  static void TearDownTestSuite() { delete folder_; }
  static std::string large() { return (*folder_) / "large"; }

  static Folder* folder_;
};

Folder* Interrupt::folder_ = nullptr;

TEST_P(Interrupt, InTheMidstOfReshardingLeavesNothing) {
  for (const char* call : {"pread", "pwrite"}) {
    Folder folder;
    const std::string to = folder / "to";
    const Result result =
        stopped({"reshard", large(), to, "--world", "3", "--memory", "1M"}, GetParam(), call, 2);
    expect_one_complaint(result, 128 + GetParam(), "interrupted");
    if (!std::filesystem::exists(to)) continue;
    for (const std::string& name : names_in(to)) EXPECT_EQ(name, ".lock") << call;
  }
}

TEST_P(Interrupt, InTheMidstOfExportingLeavesNothing) {
  Folder folder;
  const Result result =
      stopped({"export", large(), folder / "m.safetensors"}, GetParam(), "pwrite", 2);
  expect_one_complaint(result, 128 + GetParam(), "interrupted");
  EXPECT_THAT(names_in(folder.path()), IsEmpty());
}

TEST_P(Interrupt, StopsVerifyAndDiff) {
  expect_one_complaint(stopped({"verify", large()}, GetParam(), "pread", 2), 128 + GetParam(),
                       "interrupted");
  expect_one_complaint(stopped({"diff", large(), large()}, GetParam(), "pread", 2),
                       128 + GetParam(), "interrupted");
}

INSTANTIATE_TEST_SUITE_P(Signals, Interrupt, ::testing::Values(SIGINT, SIGTERM, SIGHUP),
                         [](const auto& each) {
                           return std::string("SIG") + ::sigabbrev_np(each.param);
                         });

TEST(InterruptOfGc, ComesBetweenTwoCheckpoints) {
  Folder folder;
  const std::string root = save_steps(folder / "r", {1, 2, 3, 4});
  const Result result = stopped({"gc", root, "--keep", "1", "--apply"}, SIGTERM, "unlink", 2);
  EXPECT_EQ(result.code, 128 + SIGTERM) << result.err;
  const auto left = zero_json({"list", root});
  EXPECT_EQ(left["steps"].size(), 3u) << "the removal under way was finished";
  EXPECT_EQ(left["damaged"].size() + left["leftovers"].size(), 0u);
  EXPECT_EQ(zero({"verify", root}).code, 0);
}

TEST(InterruptOfNothing, IsIgnoredWhereItWasIgnored) {
  Folder folder;
  const std::string root = save_large(folder / "r", 8);
  const std::string script =
      "trap '' INT; LD_PRELOAD=" SIGNAL_AT_CALL " exec \"$0\" verify " + root;
  const Result result =
      Launched({"sh", "-c", script, ZERO_COMMAND}, {{"ZERO_TEST_SIGNAL", std::to_string(SIGINT)},
                                                    {"ZERO_TEST_CALL", "pread"},
                                                    {"ZERO_TEST_COUNT", "2"}})
          .wait();
  EXPECT_EQ(result.code, 0) << result.err;
}

TEST(InterruptOnATerminal, TakesTheProgressBarAway) {
  Folder folder;
  save_large(folder / "r", 8);
  Launched launched({ZERO_COMMAND, "verify", folder / "r"},
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
