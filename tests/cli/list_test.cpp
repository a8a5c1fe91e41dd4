#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/cli/checkpoint_root.h"

namespace zero::cli::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(List, ShowsStepsWithRunWorldStageAndBytes) {
  const json got = zero_json({"list", golden_root()});
  EXPECT_EQ(got["root"], golden_root());
  ASSERT_EQ(got["steps"].size(), 3u);
  for (int step = 1; step <= 3; ++step) {
    const json& row = got["steps"][static_cast<std::size_t>(step - 1)];
    EXPECT_EQ(row["name"], "step_00000000000" + std::to_string(step));
    EXPECT_EQ(row["step"], step);
    EXPECT_EQ(row["run_id"], "sample-run");
    EXPECT_EQ(row["world_size"], step);
    EXPECT_EQ(row["stage"], 2);
    EXPECT_GT(row["bytes"], 10000);
  }
  EXPECT_EQ(got["damaged"], json::array());
  EXPECT_EQ(got["leftovers"], json::array());
  EXPECT_EQ(got["latest"], nullptr);
  EXPECT_EQ(lines_of(zero({"list", golden_root()}).out).size(), 4u);
}

TEST(List, TellsDamagedOnesAndWhy) {
  Folder folder;
  const std::string root = save_steps(folder / "r", {1, 2, 3});
  std::filesystem::remove(step_directory(root, 2) + "/common.h5");
  const json got = zero_json({"list", root});
  EXPECT_EQ(got["steps"].size(), 2u);
  ASSERT_EQ(got["damaged"].size(), 1u);
  EXPECT_EQ(got["damaged"][0]["name"], "step_000000000002");
  EXPECT_THAT(got["damaged"][0]["problem"], HasSubstr("common.h5"));
  const Result text = zero({"list", root});
  EXPECT_EQ(text.code, 0);
  EXPECT_THAT(lines_of(text.out).at(2),
              AllOf(HasSubstr("step_000000000002"), HasSubstr("damaged")));
  EXPECT_THAT(text.out, HasSubstr("step_000000000002: a file is missing"));
}

TEST(List, ShowsWhatCrashesHaveLeft) {
  Folder folder;
  const std::string root = save_steps(folder / "r", {1});
  const std::string leftover = make_leftover(root, 2);
  std::ofstream(root + "/notes.txt") << "mine";
  EXPECT_EQ(zero_json({"list", root})["leftovers"],
            json::array({{{"name", leftover}, {"bytes", 100}}}));
  EXPECT_THAT(zero({"list", root}).out, AllOf(HasSubstr(leftover), Not(HasSubstr("notes"))));
}

TEST(List, SaysWhatLatestSaysIfItIsStale) {
  Folder folder;
  const std::string root = save_steps(folder / "r", {1, 2});
  EXPECT_EQ(zero_json({"list", root})["latest"], "step_000000000002");
  EXPECT_EQ(zero_json({"list", root})["latest_is_stale"], false);
  EXPECT_THAT(zero({"list", root}).out, Not(HasSubstr("LATEST")));
  std::ofstream(root + "/LATEST") << "step_000000000001\n";
  EXPECT_EQ(zero_json({"list", root})["latest_is_stale"], true);
  EXPECT_THAT(zero({"list", root}).out, HasSubstr("LATEST says step_000000000001"));
  std::ofstream(root + "/LATEST") << "\033[31m" << std::string(100000, 'x');
  EXPECT_THAT(zero({"list", root}).out,
              AllOf(HasSubstr("LATEST says \\x1b[31mxxx"), Not(HasSubstr("\033"))));
}

TEST(List, OfAnEmptyRootIsEmpty) {
  Folder folder;
  const Result result = zero({"list", folder.path()});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, HasSubstr("no checkpoints in " + folder.path()));
  EXPECT_EQ(zero_json({"list", folder.path()})["steps"], json::array());
}

TEST(List, OfACheckpointsOwnDirectoryIsWrongUsage) {
  expect_one_complaint(zero({"list", step_directory(golden_root(), 1)}), 2, "the root");
}

}  // namespace
}  // namespace zero::cli::testing
