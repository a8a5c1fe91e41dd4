// Gloo writes to sockets that a dead peer may have closed: a SIGPIPE would end the program.

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <latch>
#include <mutex>
#include <set>

#include "tests/gloo/world.h"

namespace zero::gloo_test {
namespace {

std::set<int> threads_of_this_process() {
  std::set<int> ids;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    ids.insert(std::stoi(entry.path().filename().string()));
  }
  return ids;
}

bool blocks(int thread, int signal) {
  std::ifstream status("/proc/self/task/" + std::to_string(thread) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("SigBlk:", 0) == 0) {
      return (std::stoull(line.substr(7), nullptr, 16) >> (signal - 1) & 1) != 0;
    }
  }
  return false;
}

TEST(GlooSignals, ItsThreadsTakeNone) {
  const std::set<int> before = threads_of_this_process();
  std::mutex mutex;
  std::set<int> rank_threads;
  std::set<int> its_threads;
  std::latch looked(2);
  kRanks.run_in_peace(2, [&](Collective& comm) {
    {
      const std::lock_guard lock(mutex);
      rank_threads.insert(gettid());
    }
    comm.barrier("all here")->wait();
    if (comm.rank() == 0) {
      for (const int thread : threads_of_this_process()) {
        if (!before.contains(thread) && !rank_threads.contains(thread)) its_threads.insert(thread);
      }
      for (const int thread : its_threads) {
        EXPECT_TRUE(blocks(thread, SIGPIPE));
        EXPECT_TRUE(blocks(thread, SIGTERM));
      }
    }
    looked.arrive_and_wait();
  });
  EXPECT_FALSE(its_threads.empty());
}

TEST(GlooSignals, ACallBlocksSigpipeOnItsOwnThreadOnlyWhileItRuns) {
  kRanks.run_in_peace(2, [](Collective& comm) {
    EXPECT_FALSE(blocks(gettid(), SIGPIPE));
    const float in[2] = {1, 2};
    float out = 0;
    bool blocked = false;
    ReduceScatterOptions options;
    options.epilogue = [&](std::int64_t, std::int64_t) { blocked = blocks(gettid(), SIGPIPE); };
    comm.reduce_scatter({in, 2, DType::kFloat32}, {&out, 1, DType::kFloat32}, options)->wait();
    EXPECT_TRUE(blocked);
    EXPECT_FALSE(blocks(gettid(), SIGPIPE));
  });
}

}  // namespace
}  // namespace zero::gloo_test
