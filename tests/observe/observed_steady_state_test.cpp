// Observing a step takes no memory and touches no page for the first time.

#include <gtest/gtest.h>

#include "libzero/collective/threads.h"
#include "libzero/observe/late_rank.h"
#include "libzero/observe/observers.h"
#include "libzero/observe/step_meter.h"
#include "libzero/observe/timeline.h"
#include "tests/optim/steady_state.h"

namespace zero {
namespace {

std::shared_ptr<Observer> everything() {
  return std::make_shared<observe::Observers>(std::vector<std::shared_ptr<Observer>>{
      std::make_shared<observe::Timeline>(observe::TimelineOptions{.skip = 0, .steps = 1000}),
      std::make_shared<observe::StepMeter>(), std::make_shared<observe::LateRank>()});
}

TEST(ObservedSteadyState, AStepTakesNoMemoryAndFaultsNoPage) {
  for (const int stage : {0, 1, 2}) {
    const auto world = make_threads(2, std::chrono::seconds(60));
    testing::Case c{2, stage};
    c.observer = everything;
    testing::expect_no_costs(c, [&](int rank) { return world[static_cast<std::size_t>(rank)]; });
  }
}

}  // namespace
}  // namespace zero
