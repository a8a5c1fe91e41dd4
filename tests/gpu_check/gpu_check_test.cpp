// gpu_check on the fake machine: that it can be passed, and that it sees what is wrong.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <sstream>

#include "tests/gpu_check/runner.h"

namespace zero::gpu_check {
namespace {

// Of the children: they are small, and others run at the same time.
const bool kOneThread = ::setenv("OMP_NUM_THREADS", "1", 1) == 0;

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct Outcome {
  int code = 0;
  std::string table;
  std::string errors;
};

Outcome check(const std::vector<Part>& parts, const std::string& fault = "",
              const std::vector<std::string>& more = {}, double seconds = 300) {
  Plan plan{parts, seconds, {ZERO_GPU_CHECK_ON_FAKE}};
  if (!fault.empty()) plan.command.insert(plan.command.end(), {"--fault", fault});
  plan.command.insert(plan.command.end(), more.begin(), more.end());
  std::ostringstream table, errors;
  const int code = run(plan, table, errors);
  return {code, table.str(), errors.str()};
}

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// The line of the table that begins with `head`.
std::string row(const Outcome& outcome, const std::string& head) {
  for (const std::string& line : lines_of(outcome.table)) {
    if (line.starts_with("| " + head)) return line;
  }
  return "no such row in " + outcome.table;
}

constexpr double kLimit = 120;

class Parts : public ::testing::TestWithParam<std::string> {};

TEST_P(Parts, AreMetByTheFakeMachine) {
  const Outcome outcome = check({{GetParam(), kLimit}});
  EXPECT_EQ(outcome.code, 0) << outcome.table << outcome.errors;
  EXPECT_THAT(outcome.table, AllOf(HasSubstr("**" + GetParam() + "**"), Not(HasSubstr("NOT MET")),
                                   HasSubstr("Everything that is demanded is met")));
}

INSTANTIATE_TEST_SUITE_P(, Parts,
                         ::testing::Values("kernels", "bits", "adamw", "update", "checkpoint",
                                           "offload", "memory", "gpt-bf16", "gpt-fp16",
                                           "collectives"),
                         [](const auto& instance) {
                           std::string name = instance.param;
                           std::erase(name, '-');
                           return name;
                         });

struct Row {
  std::string head;
  std::string says = {};
};

struct Wrong {
  std::string faults;  ///< Separated by commas.
  std::string part;
  std::vector<Row> rows;  ///< They begin so, say that, and are not met.
  std::vector<std::string> more = {};
};

void PrintTo(const Wrong& wrong, std::ostream* out) {
  *out << wrong.faults << " in " << wrong.part;
}

class Faults : public ::testing::TestWithParam<Wrong> {};

TEST_P(Faults, AreSeen) {
  const Wrong& wrong = GetParam();
  const Outcome outcome = check({{wrong.part, kLimit}}, wrong.faults, wrong.more);
  EXPECT_EQ(outcome.code, 1) << outcome.table << outcome.errors;
  for (const Row& expected : wrong.rows) {
    EXPECT_THAT(row(outcome, expected.head), AllOf(HasSubstr("NOT MET"), HasSubstr(expected.says)));
    EXPECT_THAT(outcome.table,
                HasSubstr("\n- " + expected.head.substr(0, expected.head.find(" |"))))
        << "named again at the end";
  }
}

INSTANTIATE_TEST_SUITE_P(
    , Faults,
    ::testing::Values(
        Wrong{"no-accumulator,wrong-bit,wrong-sgd,idle-average,idle-sum,idle-prepare,idle-cast",
              "kernels",
              {{"sum of 1 x float32", "other bits"},
               {"AdamW, gradient bfloat16, parameter bfloat16", "other bits"},
               {"SGD, gradient float32, parameter float32", "other bits"},
               {"average of weights", "other bits"},
               {"exact sum of the norm's blocks", "other bits"},
               {"decision and constants of a step", "other bits"},
               {"cast float32 to bfloat16", "other bits"}}},
        Wrong{"wrong-bit",
              "bits",
              {{"parameters of BFloat16, stage 2, one rank", "other bits"},
               {"parameters of Half, stage 1, two ranks on one GPU", "other bits"},
               {"parameters of Float, stage 0, one rank", "other bits"}}},
        Wrong{"slow-adamw", "adamw", {{"AdamW's traffic, of the copy's", "%"}}, {"--judge-speed"}},
        Wrong{
            "slow-adamw", "update", {{"LibTorch's update over step()", "| 0."}}, {"--judge-speed"}},
        Wrong{"idle-adamw", "update", {{"largest change of a parameter", "0.000000"}}},
        Wrong{
            "nan-adamw", "update", {{"largest difference of a parameter between the two", "inf"}}},
        Wrong{"damaged-store",
              "checkpoint",
              {{"saved on the GPU, loaded on the CPU: masters", "other bytes"},
               {"saved on the GPU, loaded on the CPU: moments", "other bytes"},
               {"saved on the GPU, loaded on the CPU: parameters |", "other bytes"}}},
        Wrong{"wrong-bit",
              "checkpoint",
              {{"saved on the GPU, loaded on the CPU: parameters 2 steps", "other bytes"}}},
        Wrong{"wrong-bit", "offload", {{"state on the GPU and on the host", "other bits"}}},
        Wrong{"stage", "memory", {{"memory().by_formula()"}}},
        Wrong{"on-host", "memory", {{"memory().on_device"}}},
        Wrong{"forgotten-memory", "memory", {{"what the allocator of the GPU was asked for"}}},
        Wrong{"idle-adamw", "gpt-bf16", {{"MiniGPT in bfloat16, loss over"}}},
        Wrong{"nan-adamw",
              "gpt-bf16",
              {{"MiniGPT in bfloat16, losses and parameters that are not finite"},
               {"MiniGPT in bfloat16, steps that were skipped"}}},
        Wrong{"small-scale", "gpt-fp16", {{"MiniGPT in float16, loss scale", "1 to 1 "}}},
        Wrong{"large-scale",
              "gpt-fp16",
              {{"MiniGPT in float16, steps that were skipped"}, {"MiniGPT in float16, loss over"}}},
        Wrong{"forgotten-rank,idle-gather,other-root,sum-for-maximum",
              "collectives",
              {{"reduce_scatter in rank order over NCCL, world 2", "other bits"},
               {"all_gather over NCCL, world 2", "other bits"},
               {"broadcast over NCCL, world 2", "other bits"},
               {"all_reduce over NCCL, world 2", "other bits"}}}),
    [](const auto& instance) {
      std::string name = instance.param.faults.substr(0, instance.param.faults.find(',')) + "_" +
                         instance.param.part;
      for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
      return name;
    });

TEST(GpuCheck, WithoutAGpuSaysSoAndChecksNothing) {
  const Outcome outcome = check({{"kernels", kLimit}}, "no-gpu");
  EXPECT_EQ(outcome.code, kNothingToCheckOn);
  EXPECT_EQ(outcome.table, "");
  EXPECT_THAT(outcome.errors,
              AllOf(HasSubstr("nothing was checked"), HasSubstr("The fake machine has no GPU")));
}

TEST(GpuCheck, AnErrorInOneRowLeavesTheOthersOfItsPart) {
  const Outcome outcome = check({{"kernels", kLimit}}, "error");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(row(outcome, "AdamW, gradient float32, parameter float32"),
              AllOf(HasSubstr("700"), HasSubstr("NOT MET")));
  EXPECT_THAT(row(outcome, "cast float32 to bfloat16"), HasSubstr("| ok |"));
}

TEST(GpuCheck, APartThatCrashesIsABadRowAndTheNextOneRuns) {
  const Outcome outcome = check({{"adamw", kLimit}, {"collectives", kLimit}}, "crash");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(row(outcome, "**adamw**"), AllOf(HasSubstr("died: Aborted"), HasSubstr("NOT MET")));
  EXPECT_THAT(row(outcome, "**collectives**"), HasSubstr("| ok |"));
}

TEST(GpuCheck, APartThatHangsIsEndedAtItsLimitAndTheNextOneRuns) {
  const Outcome outcome = check({{"adamw", 3}, {"collectives", kLimit}}, "hang");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(row(outcome, "**adamw**"), AllOf(HasSubstr("still running after 3"),
                                               HasSubstr("within 3 s"), HasSubstr("NOT MET")));
  EXPECT_THAT(row(outcome, "**collectives**"), HasSubstr("| ok |"));
}

TEST(GpuCheck, PartsForWhichNoTimeIsLeftAreNotRunAndNotMet) {
  const Outcome outcome = check({{"adamw", kLimit}, {"collectives", kLimit}}, "hang", {}, 4);
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(row(outcome, "**collectives**"), HasSubstr("not run: no time left"));
}

TEST(GpuCheck, AProgramThatIsNotThereIsAnErrorAndNotAGoodEnd) {
  std::ostringstream table, errors;
  EXPECT_THROW(run({{{"machine", 5}}, 10, {"/no/such/program"}}, table, errors), std::system_error);
}

}  // namespace
}  // namespace zero::gpu_check
