// A step in the steady state takes no memory and touches none for the first time: step() from entry
// to return, the library's part of autograd's hooks, and whatever the communication threads do.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <chrono>
#include <thread>
#include <vector>

#include "libzero/collective/self.h"
#include "libzero/collective/threads.h"
#include "tests/optim/steady_state.h"

namespace zero {
namespace {

using testing::Costs;

void expect_nothing(const testing::Case& c) {
  const auto world = make_threads(c.world_size, std::chrono::seconds(60));
  testing::expect_no_costs(c, [&](int rank) {
    return c.world_size == 1 ? make_self() : world[static_cast<std::size_t>(rank)];
  });
}

TEST(SteadyState, AStepTakesNoMemoryAndFaultsNoPageOnAnyWorldStageAndPrecision) {
  for (const int world_size : {1, 2, 4}) {
    for (const int stage : {0, 1, 2}) {
      for (const auto dtype : {torch::kFloat, torch::kBFloat16, torch::kHalf})
        expect_nothing({world_size, stage, dtype, dtype == torch::kHalf ? torch::kFloat : dtype});
    }
  }
}

TEST(SteadyState, NeitherDoesANarrowWire) {
  for (const int stage : {0, 1, 2}) expect_nothing({2, stage, torch::kFloat, torch::kBFloat16});
}

TEST(SteadyState, NeitherDoCallsInsideNoSync) {
  for (const int stage : {0, 1, 2}) {
    for (const auto dtype : {torch::kFloat, torch::kBFloat16})
      expect_nothing({2, stage, dtype, dtype, /*no_sync=*/true});
  }
}

/// Keeps the compiler from leaving out what nobody reads.
std::vector<char>* volatile made = nullptr;

void make(std::size_t bytes) {
  made = new std::vector<char>(bytes, 'x');
}

TEST(SteadyState, TheCountersSeeAnAllocationAndAFault) {
  const testing::TrainingThread thread;
  testing::take_costs();
  make(100);
  delete made;
  EXPECT_EQ(testing::take_costs().allocations, 0) << "outside the library";
  testing::enter_library();
  make(std::size_t{8} << 20);  // its pages are new
  testing::leave_library();
  const Costs costs = testing::take_costs();
  EXPECT_EQ(costs.allocations, 2);
  EXPECT_GT(costs.faults, 0);
  delete made;
  std::thread([] { make(100); }).join();  // as a communication thread
  delete made;
  EXPECT_GE(testing::take_costs().allocations, 2);
}

}  // namespace
}  // namespace zero
