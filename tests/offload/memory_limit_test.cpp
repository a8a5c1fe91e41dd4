/// What offload is for: state that is four times as large as the memory that there is for it.

#include <gtest/gtest.h>
#include <stdio.h>
#include <sys/wait.h>

#include <string>

#include "tests/temporary_folder.h"

namespace zero {
namespace {

struct Outcome {
  int code = -1;
  std::string output;
  std::string digest() const {
    return output.substr(output.find('\n') == output.size() - 1 ? 0 : output.find('\n') + 1);
  }
};

/// Threads' stacks count as memory: they are made smaller than a shell's. Memory that was freed
/// goes back to the system, and does not count.
Outcome run(const std::string& place, const std::string& limit) {
  const std::string command = "ulimit -s 512; MALLOC_MMAP_THRESHOLD_=131072 exec '" LIMITED_TRAINING
                              "' '" +
                              place + "' " + limit + " 2>&1";
  Outcome outcome;
  FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return outcome;
  char chunk[4096];
  while (const std::size_t got = ::fread(chunk, 1, sizeof chunk, pipe))
    outcome.output.append(chunk, got);
  const int status = ::pclose(pipe);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

TEST(OffloadMemoryLimit, StateFourTimesTheMemoryLeftTrainsWithTheSameBitsOnTheDiskAndNotWithout) {
  const testing::TemporaryFolder folder;
  const Outcome free = run("memory", "free");
  ASSERT_EQ(free.code, 0) << free.output;
  const Outcome offloaded = run(folder.path(), "limited");
  ASSERT_EQ(offloaded.code, 0) << offloaded.output;
  EXPECT_EQ(offloaded.output.substr(0, offloaded.output.find('\n')),
            "state 268435456 left 67108864");
  EXPECT_GT(free.digest().size(), 1000u);
  EXPECT_EQ(offloaded.digest(), free.digest());
  const Outcome in_memory = run("memory", "limited");
  EXPECT_EQ(in_memory.code, 4) << in_memory.output;
}

}  // namespace
}  // namespace zero
