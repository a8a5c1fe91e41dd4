#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "cli/unique_fd.h"
#include "tests/cli/launched.h"

namespace zero::cli::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

void expect_usage_error(const Result& result, const std::string& about) {
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr(about));
}

TEST(RunOptions, BadUsageIsOneLineAndExitsWithTwo) {
  expect_usage_error(zero_run({"-n", "0", "--", "true"}), "--ranks");
  expect_usage_error(zero_run({"-n", "-1", "--", "true"}), "--ranks");
  expect_usage_error(zero_run({"-n", "x", "--", "true"}), "--ranks");
  expect_usage_error(zero_run({"--", "true"}), "--ranks");
  expect_usage_error(zero_run({"-n", "2"}), "--");
  expect_usage_error(zero_run({"-n", "2", "--"}), "no program");
  expect_usage_error(zero_run({"-n", "2", "--frobnicate", "--", "true"}), "--frobnicate");
  expect_usage_error(zero_run({"-n", "2", "true"}), "true; write the program behind --");
  expect_usage_error(zero_run({"-n", "2", "--threads", "0", "--", "true"}), "--threads");
  expect_usage_error(zero_run({"-n", "2", "--port", "65536", "--", "true"}), "--port");
  expect_usage_error(zero_run({"-n", "2", "--grace", "-1", "--", "true"}), "--grace");
  expect_usage_error(zero_run({"-n", "2", "--backend", "bogus", "--", "true"}), "--backend");
  expect_usage_error(Launched({ZERO_COMMAND}).wait(), "no command");
  expect_usage_error(Launched({ZERO_COMMAND, "frobnicate"}).wait(), "frobnicate");
  expect_usage_error(Launched({ZERO_COMMAND, "trace"}).wait(), "A command of trace");
  expect_usage_error(Launched({ZERO_COMMAND, "trace", "frobnicate"}).wait(), "frobnicate");
  for (const char* what : {"--frobnicate", "out.json"})
    expect_usage_error(Launched({ZERO_COMMAND, "trace", "merge", what}).wait(),
                       "zero trace merge --help");
}

TEST(RunOptions, RestartsThatMakeNoSenseAreUsageErrors) {
  const auto refused = [](std::vector<std::string> options, const std::string& about) {
    options.insert(options.end(), {"-n", "4", "--", "true"});
    expect_usage_error(zero_run(options), about);
  };
  refused({"--restarts", "-1"}, "--restarts");
  refused({"--restarts", "1", "--min-ranks", "0"}, "--min-ranks");
  refused({"--restarts", "1", "--min-ranks", "5"}, "--min-ranks must not be more than --ranks");
  refused({"--min-ranks", "2"}, "--restarts");
  refused({"--restarts", "1", "--micro-batches", "8"}, "--min-ranks");
  refused({"--restarts", "1", "--min-ranks", "1", "--micro-batches", "10"},
          "--micro-batches must be a multiple of --ranks");
}

TEST(RunOptions, HelpAndVersionExitWithZero) {
  const Result help = zero_run({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.out, AllOf(HasSubstr("zero run -n 4"), HasSubstr("MALLOC_TRIM_THRESHOLD_")));
  const std::string versions = Launched({ZERO_COMMAND, "--version"}).wait().out;
  for (const char* library :
       {"zero 0.", "\nHighway 1.", "\nBoost 1.", "\nCLI11 2.", "\nnlohmann-json 3."}) {
    EXPECT_THAT(versions, HasSubstr(library));
  }
  EXPECT_EQ(Launched({ZERO_COMMAND, "--help"}).wait().code, 0);
}

TEST(RunOptions, ParsingStopsAtTheDashes) {
  const Result result = zero_run({"-n", "1", "--", "echo", "--help", "-n", "0", "--", "x"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "[0] --help -n 0 -- x\n");
}

TEST(RunOptions, AProgramThatIsNotThereIs127AndOneThatCannotRunIs126) {
  const Result missing = zero_run({"-n", "2", "--", "/no/such/program"});
  EXPECT_EQ(missing.code, 127);
  EXPECT_THAT(missing.err, AllOf(HasSubstr("/no/such/program"), HasSubstr("No such file")));
  const Result not_executable = zero_run({"-n", "2", "--", "/etc/passwd"});
  EXPECT_EQ(not_executable.code, 126);
  EXPECT_THAT(not_executable.err, HasSubstr("Permission denied"));
}

TEST(RunOptions, APortInUseIsAnInputOutputErrorThatNamesIt) {
  const UniqueFd taken(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(::bind(taken.get(), generic, size), 0);
  ASSERT_EQ(::listen(taken.get(), 1), 0);
  ASSERT_EQ(::getsockname(taken.get(), generic, &size), 0);
  const std::string port = std::to_string(ntohs(address.sin_port));
  const Result result = zero_run({"-n", "2", "--port", port, "--", "echo", "started"});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, AllOf(HasSubstr("127.0.0.1:" + port), HasSubstr("in use")));
  EXPECT_THAT(result.out, Not(HasSubstr("started")));
}

TEST(RunOptions, AProgramsPathMayHoldSpaces) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("zero cli test " + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  const std::string program = folder / "my program";
  std::ofstream(program) << "#!/bin/sh\necho \"$1\"\n";
  ::chmod(program.c_str(), 0755);
  const Result result = zero_run({"-n", "1", "--", program, "an argument"});
  std::filesystem::remove_all(folder);
  EXPECT_EQ(result.out, "[0] an argument\n");
}

TEST(RunEnvironment, TellsEachRankWhoItIs) {
  const Result result = zero_run(
      {"-n", "2", "--threads", "3", "--timeout", "7", "--backend", "gloo", "--", "sh", "-c",
       "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $MASTER_ADDR $OMP_NUM_THREADS "
       "$MKL_NUM_THREADS $ZERO_TIMEOUT $ZERO_BACKEND $TORCHELASTIC_RESTART_COUNT "
       "${ZERO_RUN_TERMINAL:-none} $MALLOC_TRIM_THRESHOLD_ $MALLOC_MMAP_THRESHOLD_ "
       "$GLIBC_TUNABLES"});
  auto lines = lines_of(result.out);
  std::sort(lines.begin(), lines.end());
  EXPECT_THAT(
      lines, ::testing::ElementsAre("[0] 0/2 0/2 127.0.0.1 3 3 7 gloo 0 none 1073741824 1073741824 "
                                    "glibc.malloc.tcache_count=0",
                                    "[1] 1/2 1/2 127.0.0.1 3 3 7 gloo 0 none 1073741824 1073741824 "
                                    "glibc.malloc.tcache_count=0"));
}

TEST(RunEnvironment, OneThreadARankUnlessTold) {
  EXPECT_EQ(
      zero_run({"-n", "1", "--", "sh", "-c", "echo $OMP_NUM_THREADS"}, {{"OMP_NUM_THREADS", "8"}})
          .out,
      "[0] 1\n");
}

TEST(RunEnvironment, WhatTheUserSaysAboutMallocStands) {
  const Result result = zero_run(
      {"-n", "1", "--", "sh", "-c", "echo $MALLOC_TRIM_THRESHOLD_ $GLIBC_TUNABLES"},
      {{"MALLOC_TRIM_THRESHOLD_", "12345"}, {"GLIBC_TUNABLES", "glibc.malloc.tcache_count=3"}});
  EXPECT_EQ(result.out, "[0] 12345 glibc.malloc.tcache_count=3\n");
}

TEST(RunEnvironment, SecretAndRunDifferFromRunToRunAndAreSharedByTheRanks) {
  const auto identity = [] {
    auto lines = lines_of(zero_run({"-n", "2", "--", "sh", "-c",
                                    "echo $ZERO_SECRET $TORCHELASTIC_RUN_ID $ZERO_STORE"})
                              .out);
    EXPECT_EQ(lines.size(), 2u);
    EXPECT_EQ(lines.at(0).substr(4), lines.at(1).substr(4));
    return lines.at(0).substr(4);
  };
  const std::string first = identity();
  EXPECT_GE(first.size(), 64u + 1 + 16);
  EXPECT_NE(first.substr(0, 64), identity().substr(0, 64));
}

TEST(RunEnvironment, StandardInputIsEmpty) {
  const Result result = zero_run({"-n", "1", "--", "sh", "-c", "cat; readlink /proc/self/fd/0"});
  EXPECT_EQ(result.out, "[0] /dev/null\n");
}

TEST(RunEnvironment, RanksInheritNoDescriptorButTheirStreams) {
  Launched launched(
      {"sh", "-c", "exec 7</dev/null; exec " ZERO_COMMAND " run -n 1 -- ls /proc/self/fd"});
  const Result result = launched.wait();
  EXPECT_EQ(result.out, "[0] 0\n[0] 1\n[0] 2\n[0] 3\n");  // 3: the folder that ls reads
}

}  // namespace
}  // namespace zero::cli::testing
