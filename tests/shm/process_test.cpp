// Ranks over shared memory as processes: killed, stopped, gone.

#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <set>

#include "tests/conformance/faults/faults.h"
#include "tests/conformance/faults/processes.h"

namespace zero::shm_test {
namespace {

using fault_test::kLong;
using fault_test::kManyElements;
using fault_test::Processes;

const bool kRegistered = fault_test::register_process_faults("Shm", ZERO_SHM_RANK_PROGRAM);

std::set<std::string> shared_files() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    if (entry.path().filename().string().find("zero") != std::string::npos) {
      names.insert(entry.path());
    }
  }
  return names;
}

TEST(ShmProcesses, AllKilledInTheMiddleLeaveNothingBehind) {
  const auto before = shared_files();
  Processes ranks(ZERO_SHM_RANK_PROGRAM, 2, kLong);
  ranks[0].tell("stall" + kManyElements);
  ranks[1].tell("reduce_scatter" + kManyElements);
  ASSERT_EQ(ranks[0].answer(), "middle");
  for (const int rank : {0, 1}) ranks[rank].signal(SIGKILL);
  for (const int rank : {0, 1}) EXPECT_EQ(ranks[rank].finish(), -SIGKILL);
  EXPECT_EQ(shared_files(), before);
}

}  // namespace
}  // namespace zero::shm_test
