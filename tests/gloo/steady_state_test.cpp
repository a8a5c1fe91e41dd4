// Over Gloo a step in the steady state takes no memory either, but for what Gloo keeps about each
// message on its way: its queues of messages give their memory back as soon as they are empty.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/gloo/world.h"
#include "tests/optim/steady_state.h"

namespace zero {
namespace {

class GlooSteadyState : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { testing::excuse_functions("_ZN4gloo9transport3tcp4Pair"); }
};

testing::Measured measure(const testing::Case& c) {
  const auto world = gloo_test::kRanks.make_world(c.world_size, gloo_test::kPatience);
  return testing::expect_no_costs(c,
                                  [&](int rank) { return world[static_cast<std::size_t>(rank)]; });
}

/// That some were excused shows that the counters see into Gloo and its threads.
void expect_only_queues(const testing::Case& c) {
  for (const testing::Costs& round : measure(c)) EXPECT_GT(round.excused, 0);
}

TEST_F(GlooSteadyState, AStepTakesNoMemoryButForGloosQueuesOnAnyWorldStageAndPrecision) {
  for (const int world_size : {2, 4}) {
    for (const int stage : {0, 1, 2}) {
      for (const auto dtype : {torch::kFloat, torch::kBFloat16})
        expect_only_queues({world_size, stage, dtype, dtype});
    }
  }
}

TEST_F(GlooSteadyState, NeitherDoesANarrowWireNorACallInsideNoSync) {
  expect_only_queues({2, 2, torch::kFloat, torch::kBFloat16});
  expect_only_queues({2, 2, torch::kFloat, torch::kFloat, /*no_sync=*/true});
}

}  // namespace
}  // namespace zero
