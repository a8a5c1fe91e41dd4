#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "checkpoint/hdf5_store.h"
#include "sample.h"
#include "tests/cli/checkpoint_root.h"

namespace zero::cli::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::vector<std::string> kCommands = {"run", "inspect", "verify", "list",
                                            "gc",  "reshard", "diff",   "export"};

/// Every command that reads a checkpoint or root at `path`.
std::vector<std::vector<std::string>> readers_of(const std::string& path, const Folder& folder) {
  const std::string out = folder / "out";
  return {{"inspect", path},      {"verify", path},
          {"diff", path, path},   {"reshard", path, out, "--world", "1"},
          {"export", path, out},  {"list", path},
          {"gc", path, "--apply"}};
}

TEST(Paths, ThatDoNotExistOrAreFilesAreInputErrors) {
  Folder folder;
  std::ofstream(folder / "file") << "x";
  for (const auto& command : readers_of(folder / "nowhere", folder)) {
    expect_one_complaint(zero(command), 3, "there is no such directory");
  }
  for (const auto& command : readers_of("", folder)) {
    expect_one_complaint(zero(command), 3, "''");
  }
  for (const auto& command : readers_of(folder / "file", folder)) {
    expect_one_complaint(zero(command), 3, "this is no directory");
  }
  const std::string part_of_one = step_directory(golden_root(), 1) + "/common.h5";
  for (const auto& command : readers_of(part_of_one, folder)) {
    expect_one_complaint(zero(command), 3, "the directory that holds MANIFEST.json");
  }
  expect_one_complaint(zero({"reshard", golden_root(), folder / "file", "--world", "1"}), 3,
                       "this is no directory");
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"file"});
}

TEST(Paths, ARootWithoutCheckpointsIsAnInputError) {
  Folder folder;
  for (const char* command : {"inspect", "verify"}) {
    expect_one_complaint(zero({command, folder.path()}), 3, "no checkpoint here");
  }
}

TEST(Paths, MayEndInSlashesHoldSpacesAndUnicodeAndBeLinks) {
  Folder folder;
  const std::string root = save_steps(folder / "my r\xc3\xa9sum\xc3\xa9", {1});
  std::filesystem::create_directory_symlink(root, folder / "link");
  std::filesystem::create_directory_symlink(step_directory(root, 1), folder / "step link");
  for (const std::string& path : {root, root + "/", root + "//", step_directory(root, 1) + "/",
                                  folder / "link", folder / "link/", folder / "step link"}) {
    EXPECT_EQ(zero_json({"inspect", path})["step"], 1) << path;
    EXPECT_EQ(zero({"verify", path}).code, 0) << path;
  }
  EXPECT_EQ(zero_json({"list", folder / "link"})["steps"].size(), 1u);
  EXPECT_THAT(zero({"inspect", root}).out, HasSubstr("my r\xc3\xa9sum\xc3\xa9"));
  EXPECT_EQ(zero({"gc", folder / "link", "--keep", "1", "--apply"}).code, 0);
}

TEST(Paths, ThatBeginWithADashStandBehindTwo) {
  Folder folder;
  save_steps(folder / "-r", {1});
  const auto in_folder = [&](const std::string& command) {
    return Launched({"sh", "-c", "cd " + folder.path() + " && \"$0\" " + command, ZERO_COMMAND})
        .wait();
  };
  EXPECT_EQ(in_folder("verify -- -r").code, 0);
  EXPECT_EQ(in_folder("verify --quick -- -r").code, 0);
  EXPECT_EQ(in_folder("reshard --world 1 -- -r -to").code, 0);
  EXPECT_EQ(in_folder("diff -- -r -to").code, 0);
  EXPECT_EQ(in_folder("verify ./-r").code, 0);
  EXPECT_EQ(in_folder("verify -r").code, 2);
}

TEST(Usage, EveryCommandHasHelpWithAnExampleAndExitCodes) {
  const Result all = zero({"--help"});
  EXPECT_EQ(all.code, 0);
  for (const std::string& command : kCommands) {
    const Result help = zero({command, "--help"});
    EXPECT_EQ(help.code, 0) << command;
    EXPECT_THAT(help.out, AllOf(HasSubstr("Usage: zero " + command), HasSubstr("Example"),
                                HasSubstr("  zero " + command), HasSubstr("Exit code:")));
    EXPECT_THAT(all.out, HasSubstr("  " + command + " "));
    for (const std::string& line : lines_of(help.out)) EXPECT_LE(line.size(), 110u) << line;
  }
}

TEST(Usage, WrongUsageIsOneLineAndExitsWithTwo) {
  for (const std::string& command : kCommands) {
    expect_one_complaint(zero({command, "--frobnicate"}), 2, "");
    if (command != "run") expect_one_complaint(zero({command}), 2, command + " --help says more");
  }
  expect_one_complaint(zero({"inspect", "a", "b"}), 2, "b");
  expect_one_complaint(zero({"gc", "a", "--keep", "0"}), 2, "--keep");
  expect_one_complaint(zero({"gc", "a", "--keep", "x"}), 2, "--keep");
  expect_one_complaint(zero({"gc", "a", "--keep-every", "5"}), 2, "--keep");
}

TEST(Usage, EscapesOnTheCommandLineAreNotEchoedRaw) {
  const Result result = zero({"inspect", "\033[31m\n\xff"});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, HasSubstr("\\x1b[31m \\xff"));
  EXPECT_EQ(lines_of(result.err).size(), 1u);
}

std::vector<std::string> in_shell(const std::string& script) {
  return {"sh", "-c", script, ZERO_COMMAND};
}

TEST(Streams, AReaderThatLeavesEarlyIsNoError) {
  Folder folder;
  checkpoint::Sample sample(1, 35);
  sample.common().parameters[0].name = std::string(1000, 'n');
  const std::string root = folder / "r";
  checkpoint::save(*checkpoint::make_hdf5_store(checkpoint::on_disk(), root), sample);
  ASSERT_GT(zero({"inspect", "--json", root}).out.size(), 100000u) << "more than a pipe holds";
  const std::string file = folder / "code";
  const std::string command =
      "{ \"$0\" inspect --json " + root + "; echo $? > " + file + "; } | head -c 1";
  const Result result = Launched(in_shell(command)).wait();
  EXPECT_EQ(result.out, "{");
  EXPECT_EQ(result.err, "");
  std::string code;
  std::ifstream(file) >> code;
  EXPECT_EQ(code, "0");
}

TEST(Streams, AFullDiskIsAnOutputError) {
  for (const std::string arguments :
       {"--help", "--version", "run --help", "inspect --help", "inspect ROOT",
        "inspect --json ROOT", "list ROOT", "verify ROOT", "gc ROOT"}) {
    std::string text = arguments;
    if (const auto at = text.find("ROOT"); at != std::string::npos) {
      text.replace(at, 4, golden_root());
    }
    const Result result = Launched(in_shell("exec \"$0\" " + text + " >/dev/full")).wait();
    EXPECT_EQ(result.code, 3) << arguments;
    EXPECT_THAT(result.err, HasSubstr("No space left on device")) << arguments;
  }
}

TEST(Streams, ClosedOnesTakeNoFilesPlace) {
  Folder folder;
  const std::string command =
      "exec \"$0\" reshard " + golden_root() + " " + folder / "r" + " --world 2 <&- >&- 2>&-";
  EXPECT_EQ(Launched(in_shell(command)).wait().code, 0);
  EXPECT_EQ(zero({"verify", folder / "r"}).code, 0);
  EXPECT_EQ(Launched(in_shell("exec \"$0\" inspect nowhere 2>&-")).wait().code, 3);
}

}  // namespace
}  // namespace zero::cli::testing
