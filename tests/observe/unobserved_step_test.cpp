// What observing costs where nobody observes: nothing. A step reads the clock for its own result
// (StepResult::seconds, comm_seconds), and for no span; and it takes no memory.

#include <gtest/gtest.h>

#include <atomic>

#include "tests/observe/clock_reads.h"
#include "tests/observe/mirror_collective.h"
#include "tests/optim/steady_state.h"

namespace zero {
namespace {

using testing::clock_reads;
using testing::MirrorCollective;

/// Counts what an optimizer tells.
class Counter final : public Observer {
 public:
  void begin(const OptimizerFacts&) override {}
  void observe(const Span&) noexcept override { ++spans_; }
  void step_ended(const StepResult&) noexcept override {}
  std::int64_t spans() const { return spans_; }

 private:
  std::atomic<std::int64_t> spans_{0};
};

struct Window {
  std::int64_t reads = 0;  ///< Of clocks, by the training and the communication thread.
  std::int64_t calls = 0;  ///< Collectives.
  std::int64_t spans = 0;
  std::int64_t allocations = 0;
};

/// One window of the steady state, with buckets in whose room all gradients fit: a backward that
/// has to wait for room reads the clock to know for how long already.
Window window_of(int stage, torch::Dtype dtype, const std::shared_ptr<Counter>& counter) {
  const testing::TrainingThread thread;
  at::set_num_threads(1);
  const auto calls = std::make_shared<std::atomic<std::int64_t>>(0);
  testing::Case c{2, stage, dtype, dtype};
  c.bucket_bytes = 256 << 10;
  if (counter) c.observer = [&] { return counter; };
  testing::Training training(std::make_shared<MirrorCollective>(calls), c);
  for (int i = 0; i < testing::kWarmUp; ++i) training.window();
  const auto spans = [&] { return counter ? counter->spans() : 0; };
  testing::take_costs();
  const Window before{clock_reads(), *calls, spans(), 0};
  training.window();
  const Window window{clock_reads() - before.reads, *calls - before.calls, spans() - before.spans,
                      testing::take_costs().allocations};
  training.shutdown();
  return window;
}

/// Two for the step, and two around each collective.
std::int64_t reads_for_the_result(const Window& window) {
  return 2 + 2 * window.calls;
}

class AStep : public ::testing::TestWithParam<int> {};

TEST_P(AStep, ThatNobodyObservesReadsNoClockForItAndTakesNoMemory) {
  for (const auto dtype : {torch::kFloat, torch::kBFloat16}) {
    const Window window = window_of(GetParam(), dtype, nullptr);
    EXPECT_GT(window.calls, 5) << "buckets and the vote";
    EXPECT_EQ(window.reads, reads_for_the_result(window));
    EXPECT_EQ(window.allocations, 0);
  }
}

TEST_P(AStep, ThatIsObservedReadsTheClockTwiceForEachSpan) {
  const auto counter = std::make_shared<Counter>();
  const Window window = window_of(GetParam(), torch::kFloat, counter);
  EXPECT_GT(window.spans, 16) << "the counter sees them";
  // One more: after the last backward a forward may begin, but a step comes.
  EXPECT_EQ(window.reads, reads_for_the_result(window) + 2 * window.spans + 1);
}

INSTANTIATE_TEST_SUITE_P(Stages, AStep, ::testing::Values(0, 1, 2));

}  // namespace
}  // namespace zero
