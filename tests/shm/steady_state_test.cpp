// Over shared memory, too, a step in the steady state takes no memory and touches none for the
// first time. Ranks as threads that each map the shared memory themselves.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/optim/steady_state.h"
#include "tests/shm/world.h"

namespace zero {
namespace {

void expect_nothing(const testing::Case& c) {
  const auto world = shm_test::kRanks.make_world(c.world_size, shm_test::kPatience);
  testing::expect_no_costs(c, [&](int rank) { return world[static_cast<std::size_t>(rank)]; });
}

TEST(ShmSteadyState, AStepTakesNoMemoryAndFaultsNoPageOnAnyWorldStageAndPrecision) {
  for (const int world_size : {2, 4}) {
    for (const int stage : {0, 1, 2}) {
      for (const auto dtype : {torch::kFloat, torch::kBFloat16})
        expect_nothing({world_size, stage, dtype, dtype});
    }
  }
}

}  // namespace
}  // namespace zero
