#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "cli/unique_fd.h"
#include "tests/cli/checkpoint_root.h"

namespace zero::cli::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;

std::vector<std::string> removed_by(std::vector<std::string> arguments) {
  std::vector<std::string> names;
  arguments.insert(arguments.begin(), "gc");
  const json plan = zero_json(std::move(arguments));
  for (const json& each : plan["remove"]) names.push_back(each["name"]);
  return names;
}

TEST(Gc, WithoutApplyChangesNothingAndSaysWhatWouldGoAndWhy) {
  Folder folder;
  const std::string root = save_steps(folder / "r", {1, 2, 3});
  const std::string leftover = make_leftover(root, 9);
  const auto before = names_in(root);
  const Result result = zero({"gc", root, "--keep", "1"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out,
              AllOf(HasSubstr(leftover), HasSubstr("step_000000000001"), HasSubstr("leftover"),
                    HasSubstr("not among the newest 1"), HasSubstr("--apply")));
  EXPECT_EQ(names_in(root), before);
  const json got = zero_json({"gc", root, "--keep", "1"});
  EXPECT_EQ(got["applied"], false);
  EXPECT_EQ(got["removed"], json::array());
  EXPECT_EQ(got["keep"], json({"step_000000000003"}));
  EXPECT_EQ(got["remove"][0]["reason"], "leftover");
  EXPECT_EQ(got["remove"][0]["bytes"], 100);
  EXPECT_EQ(got["remove"][2]["reason"], "old");
  EXPECT_EQ(names_in(root), before);
}

TEST(Gc, KeepsTheNewestAndMultiples) {
  Folder folder;
  const std::string root = save_steps(folder / "r", {10, 15, 20, 25, 30});
  EXPECT_THAT(removed_by({root}), IsEmpty()) << "steps stay unless --keep says how many";
  EXPECT_THAT(removed_by({root, "--keep", "2"}),
              ElementsAre("step_000000000010", "step_000000000015", "step_000000000020"));
  EXPECT_THAT(removed_by({root, "--keep", "1", "--keep-every", "10"}),
              ElementsAre("step_000000000015", "step_000000000025"));
  EXPECT_THAT(removed_by({root, "--keep", "1", "--run", "another"}), IsEmpty());
  expect_one_complaint(zero({"gc", root, "--keep", "1", "--run", ""}), 2, "--run");
}

TEST(Gc, AppliedRemovesThatAndNothingElse) {
  Folder folder;
  const std::string root = save_steps(folder / "r", {1, 2, 3});
  const std::string leftover = make_leftover(root, 9);
  std::ofstream(root + "/notes.txt") << "mine";
  const json got = zero_json({"gc", root, "--keep", "2", "--apply"});
  EXPECT_EQ(got["removed"], json({leftover, "step_000000000001"}));
  EXPECT_EQ(got["failures"], json::array());
  EXPECT_THAT(names_in(root), ElementsAre(".lock", "LATEST", "notes.txt", "step_000000000002",
                                          "step_000000000003"));
  EXPECT_EQ(zero({"verify", root}).code, 0);
  EXPECT_THAT(zero({"gc", root, "--keep", "2", "--apply"}).out, HasSubstr("nothing to remove"));
}

TEST(Gc, DamagedOnesStayUnlessAskedForAndNeverCountAsKept) {
  Folder folder;
  const std::string root = save_steps(folder / "r", {1, 2, 3});
  std::filesystem::resize_file(step_directory(root, 3) + "/common.h5", 5);
  const json got = zero_json({"gc", root, "--keep", "1"});
  EXPECT_EQ(got["keep"], json({"step_000000000002"})) << "the newest whole one";
  EXPECT_EQ(got["damaged"][0]["name"], "step_000000000003");
  EXPECT_THAT(zero({"gc", root}).out, HasSubstr("damaged, stays without --damaged: step_"));
  EXPECT_THAT(removed_by({root, "--keep", "1"}), ElementsAre("step_000000000001"));
  EXPECT_THAT(removed_by({root, "--keep", "1", "--damaged", "--apply"}),
              ElementsAre("step_000000000001", "step_000000000003"));
  EXPECT_THAT(names_in(root), ElementsAre(".lock", "LATEST", "step_000000000002"));
}

TEST(Gc, OlderOnesStayWhereTheNewestHasADamagedByte) {
  Folder folder;
  const std::string root = save_steps(folder / "r", {1, 2});
  const auto before = names_in(root);
  for (const auto& file : std::filesystem::directory_iterator(step_directory(root, 2))) {
    std::fstream stream(file.path(), std::ios::in | std::ios::out | std::ios::binary);
    if (!file.path().filename().string().starts_with("shard-")) continue;
    stream.seekg(-1, std::ios::end);
    const char last = static_cast<char>(stream.get() ^ 1);
    stream.seekp(-1, std::ios::end);
    stream.put(last);
  }
  expect_one_complaint(zero({"gc", root, "--keep", "1", "--apply"}), 1, "step_000000000002");
  EXPECT_THAT(names_in(root), IsSupersetOf(before));
}

TEST(Gc, WhileASaveIsUnderWayNothingIsRemoved) {
  Folder folder;
  const std::string root = save_steps(folder / "r", {1, 2});
  const std::string unfinished = make_leftover(root, 3);
  const auto before = names_in(root);
  UniqueFd lock(::open((root + "/.lock").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::flock(lock.get(), LOCK_EX | LOCK_NB), 0);
  const json got = zero_json({"gc", root, "--keep", "1"});
  EXPECT_EQ(got["remove"].size(), 1u) << "the save's directory is no leftover";
  EXPECT_THAT(got["note"], HasSubstr("under way"));
  const Result result = zero({"gc", root, "--keep", "1", "--apply"});
  expect_one_complaint(result, 3, "under way");
  EXPECT_EQ(names_in(root), before);
  lock.reset();
  EXPECT_EQ(zero({"gc", root, "--apply"}).code, 0);
  EXPECT_THAT(names_in(root),
              ElementsAre(".lock", "LATEST", "step_000000000001", "step_000000000002"));
}

TEST(Gc, WhileAJobLivesThatSavesHereItLooksButRemovesNothing) {
  Folder folder;
  const std::string root = save_steps(folder / "r", {1, 2});
  make_leftover(root, 3);
  UniqueFd lock(::open((root + "/.job.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(::flock(lock.get(), LOCK_EX | LOCK_NB), 0);
  const auto before = names_in(root);
  const json got = zero_json({"gc", root, "--keep", "1"});
  EXPECT_EQ(got["remove"].size(), 2u);
  EXPECT_THAT(got["note"], AllOf(HasSubstr("a job lives"), HasSubstr(root + "/.job.lock")));
  EXPECT_THAT(zero({"gc", root, "--keep", "1"}).out, HasSubstr("a job lives"));
  for (const char* keep : {"1", "2"}) {
    expect_one_complaint(zero({"gc", root, "--keep", keep, "--apply"}), 3, root + "/.job.lock");
  }
  EXPECT_EQ(names_in(root), before);
  lock.reset();
  EXPECT_EQ(zero_json({"gc", root, "--keep", "1", "--apply"})["removed"].size(), 2u);
}

TEST(Gc, AForeignFileInALeftoverStaysAndIsAFailure) {
  Folder folder;
  const std::string root = save_steps(folder / "r", {1});
  const std::string leftover = make_leftover(root, 2);
  std::ofstream(root + "/" + leftover + "/mine.txt") << "mine";
  const Result result = zero({"gc", root, "--apply"});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, HasSubstr(leftover));
  EXPECT_THAT(names_in(root + "/" + leftover), ElementsAre("mine.txt"));
}

/// `zero` as somebody who may not write everywhere: root may, and so becomes nobody, who in turn
/// may not look into the folder of the build: `program` is a copy.
std::vector<std::string> unprivileged(const std::string& program,
                                      std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), program);
  if (::geteuid() != 0) return arguments;
  const std::vector<std::string> drop = {"setpriv", "--reuid=65534", "--regid=65534",
                                         "--clear-groups"};
  arguments.insert(arguments.begin(), drop.begin(), drop.end());
  return arguments;
}

TEST(Gc, OfARootThatMayNotBeWrittenFailsAndChangesNothing) {
  Folder folder;
  ::chmod(folder.path().c_str(), 0755);
  const std::string program = folder / "zero";
  std::filesystem::copy_file(ZERO_COMMAND, program);
  ::chmod(program.c_str(), 0755);
  ASSERT_EQ(Launched(unprivileged(program, {"--version"})).wait().code, 0);
  const std::string root = save_steps(folder / "r", {1, 2});
  make_leftover(root, 3);
  const auto before = names_in(root);
  ::chmod(root.c_str(), 0555);
  ::chmod((root + "/.lock").c_str(), 0444);
  EXPECT_EQ(Launched(unprivileged(program, {"gc", root, "--keep", "1"})).wait().code, 0);
  const Result result =
      Launched(unprivileged(program, {"gc", root, "--keep", "1", "--apply"})).wait();
  ::chmod(root.c_str(), 0755);
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, HasSubstr("Permission denied"));
  EXPECT_EQ(names_in(root), before);
}

TEST(Gc, SeveralAtOnceEndWithWhatOneWouldLeave) {
  Folder folder;
  const std::string root = save_steps(folder / "r", {1, 2, 3, 4, 5, 6});
  std::vector<std::unique_ptr<Launched>> all;
  for (int i = 0; i < 4; ++i) {
    all.push_back(std::make_unique<Launched>(
        std::vector<std::string>{ZERO_COMMAND, "gc", root, "--keep", "2", "--apply"}));
  }
  for (const auto& each : all) {
    const int code = each->wait().code;
    EXPECT_TRUE(code == 0 || code == 3) << code;  // 3: another one had the lock, or was faster
  }
  EXPECT_THAT(zero({"gc", root, "--keep", "2", "--apply"}).code, 0);
  EXPECT_THAT(names_in(root),
              ElementsAre(".lock", "LATEST", "step_000000000005", "step_000000000006"));
}

}  // namespace
}  // namespace zero::cli::testing
