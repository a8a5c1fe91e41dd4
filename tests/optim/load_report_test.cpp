/// What is said about a load, and about one that was refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/optim/load_plan_support.h"

namespace zero {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::Pair;

TEST(LoadRefusal, CountsWhatItDoesNotShow) {
  Pair pair;
  for (int i = 0; i < 60; ++i)
    pair.live.rows.push_back({.name = "new" + std::to_string(i), .shape = {1}});
  const std::string text =
      refusal_of(pair.plan(), pair.reader.info(), 2, "runs/a/step_000000000020");
  EXPECT_THAT(text, HasSubstr("runs/a/step_000000000020, 60 differences\n"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 51);
  EXPECT_THAT(text, EndsWith("\n  and 10 more"));
}

TEST(LoadRefusal, PrintsTheCommandThatReshards) {
  Pair pair;
  pair.live.world_size = 3;
  const auto command = [&](const std::string& directory) {
    const std::string text = refusal_of(pair.plan(), pair.reader.info(), 3, directory);
    return text.substr(text.rfind("zero reshard"));
  };
  EXPECT_EQ(command("/runs/a/step_000000000020"),
            "zero reshard /runs/a/step_000000000020 /runs/a-world3 --world 3");
  EXPECT_EQ(
      command("my runs/it's/step_000000000020/"),
      "zero reshard 'my runs/it'\\''s/step_000000000020' 'my runs/it'\\''s-world3' --world 3");
  EXPECT_EQ(command("step_000000000020"), "zero reshard step_000000000020 world3 --world 3");
}

TEST(LoadReportText, IsATable) {
  LoadReport report;
  report.found = true;
  report.directory = "runs/a/step_000000000020";
  report.step = 20;
  report.trainer.run_id = "run";
  report.saved_world_size = 4;
  report.warnings = {"step_000000000030: shard-00001-of-00004.h5 is missing"};
  report.items = {{"masters", Restored::kResharded, "12 parameters from 4 ranks"},
                  {"random state", Restored::kDerived, ""}};
  EXPECT_EQ(to_text(report),
            "loaded step 20 of run run, saved by 4 ranks, from runs/a/step_000000000020\n"
            "warning: step_000000000030: shard-00001-of-00004.h5 is missing\n"
            "  masters       resharded 12 parameters from 4 ranks\n"
            "  random state  derived\n");
  EXPECT_EQ(to_text(LoadReport()), "no checkpoint was found, nothing was loaded\n");
}

}  // namespace
}  // namespace zero
