// What a window does, seen from outside: the calls that reach the communicator and LibTorch's
// operators.

#include <ATen/record_function.h>
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <chrono>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "libzero/collective/recorder.h"
#include "tests/optim/pull.h"
#include "tests/optim/ranks.h"
#include "tests/optim/toy_model.h"

namespace zero {
namespace {

using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::Each;
using testing::fine_options;
using ::testing::Not;
using testing::on_every_stage;
using testing::on_ranks;
using testing::parameter;
using testing::pull;
using testing::toy_backward;
using testing::toy_options;
using testing::ToyModel;

OperationCounters bytes_of_a_window(int stage, c10::ScalarType wire, Operation operation) {
  OperationCounters counters;
  on_ranks(2, [&](const auto& comm) {
    const auto [recorded, log] = record_calls(comm);
    ToyModel model;
    Optimizer optimizer(*model, AdamWOptions(1e-2), toy_options(stage).wire(wire), recorded);
    toy_backward(optimizer, model, 0, 4, comm->rank(), comm->size());
    optimizer.step();
    optimizer.shutdown();
    if (comm->rank() == 0) counters = log->of(operation);
  });
  return counters;
}

TEST(Wire, InBFloat16SendsHalfTheGradientBytesAndNothingElseChanges) {
  for (const int stage : {0, 1, 2}) {
    const auto wide = bytes_of_a_window(stage, torch::kFloat, Operation::kReduceScatter);
    const auto narrow = bytes_of_a_window(stage, torch::kBFloat16, Operation::kReduceScatter);
    EXPECT_GT(narrow.bytes, 0);
    EXPECT_EQ(wide.bytes, 2 * narrow.bytes) << "stage " << stage;
    EXPECT_EQ(wide.calls, narrow.calls);
    EXPECT_EQ(bytes_of_a_window(stage, torch::kFloat, Operation::kAllGather).bytes,
              bytes_of_a_window(stage, torch::kBFloat16, Operation::kAllGather).bytes);
  }
}

/// Calls `in_the_middle` during backward, when the gradients of `late` have left and that of
/// `early` has not arrived.
void backward_with_a_stop(Optimizer& optimizer, const torch::Tensor& early,
                          const torch::Tensor& late, const std::function<void()>& in_the_middle) {
  const torch::Tensor hidden = early * 2;
  hidden.register_hook([&](const torch::Tensor&) { in_the_middle(); });
  // Sequence numbers decide what autograd runs first: the operators on `late` come last here.
  optimizer.backward((hidden + late * late).sum());
}

struct TwoBuckets {
  TwoBuckets(const std::shared_ptr<Collective>& comm, Options options)
      : optimizer({{"early", early}, {"late", late}}, {}, AdamWOptions(0.1),
                  options.bucket_bytes(8).first_bucket_bytes(8), comm) {}

  torch::Tensor early = parameter({1, 2}), late = parameter({3, 4});
  Optimizer optimizer;
};

TEST(Overlap, ABucketIsReducedOnEveryRankWhileBackwardStillRuns) {
  on_every_stage(2, [](const auto& comm, int stage) {
    const auto [recorded, log] = record_calls(comm);
    TwoBuckets model(recorded, fine_options(stage));
    ASSERT_EQ(model.optimizer.layout().buckets().size(), 2u);
    bool was_reduced = false;
    backward_with_a_stop(model.optimizer, model.early, model.late, [&, log = log] {
      // Backward stands here until the first bucket has been reduced, on both ranks.
      const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
      while (!was_reduced && std::chrono::steady_clock::now() < give_up) {
        std::this_thread::yield();
        was_reduced = log->of(Operation::kReduceScatter).calls == 1;
      }
    });
    EXPECT_TRUE(was_reduced);
    EXPECT_TRUE(model.optimizer.step().applied);
    EXPECT_EQ(log->of(Operation::kReduceScatter).calls, 2);
    model.optimizer.shutdown();
  });
}

TEST(Overlap, DeferredReductionStartsWhenBackwardHasEnded) {
  on_every_stage(2, [](const auto& comm, int stage) {
    const auto [recorded, log] = record_calls(comm);
    TwoBuckets model(recorded, fine_options(stage).defer_reduction(true));
    std::int64_t calls = -1;
    backward_with_a_stop(model.optimizer, model.early, model.late,
                         [&, log = log] { calls = log->of(Operation::kReduceScatter).calls; });
    EXPECT_EQ(calls, 0);
    EXPECT_TRUE(model.optimizer.step().applied);
    EXPECT_EQ(log->of(Operation::kReduceScatter).calls, 2);
    model.optimizer.shutdown();
  });
}

/// Names of LibTorch's operators that run on any thread while it lives.
class OperatorNames {
 public:
  OperatorNames() {
    names().clear();
    handle_ = at::addGlobalCallback(
        at::RecordFunctionCallback(&note).scopes({at::RecordScope::FUNCTION}));
  }
  ~OperatorNames() { at::removeCallback(handle_); }
  OperatorNames(const OperatorNames&) = delete;
  OperatorNames& operator=(const OperatorNames&) = delete;

  std::set<std::string> seen() const {
    const std::lock_guard lock(mutex());
    return names();
  }

 private:
  static std::set<std::string>& names() {
    static std::set<std::string> names;
    return names;
  }
  static std::mutex& mutex() {
    static std::mutex mutex;
    return mutex;
  }
  static std::unique_ptr<at::ObserverContext> note(const at::RecordFunction& function) {
    const std::lock_guard lock(mutex());
    names().insert(function.name());
    return nullptr;
  }

  at::CallbackHandle handle_;
};

/// Of backward (of a loss that is a mere sum) and step.
std::set<std::string> operators_of_a_window(torch::Dtype dtype, int stage) {
  torch::Tensor p = parameter({1, 2, 3}, dtype);
  Optimizer optimizer({{"p", p}}, {}, AdamWOptions(0.1), fine_options(stage), make_self());
  const torch::Tensor loss = p.sum();
  std::set<std::string> names;
  {
    const OperatorNames operators;
    optimizer.backward(loss);
    EXPECT_TRUE(optimizer.step().applied || dtype == torch::kHalf);
    names = operators.seen();
  }
  optimizer.shutdown();
  return names;
}

TEST(Scale, Float32AndBFloat16RunNoOperatorThatScalesUnscalesOrChecks) {
  for (const int stage : {0, 1, 2}) {
    for (const auto dtype : {torch::kFloat, torch::kBFloat16}) {
      EXPECT_THAT(operators_of_a_window(dtype, stage),
                  Each(Not(ContainsRegex("aten::(mul|div|isfinite|isnan|isinf)|unscale"))))
          << "stage " << stage << " " << dtype;
    }
    // The same eyes see the one multiplication that float16 needs: that of the loss.
    EXPECT_THAT(operators_of_a_window(torch::kHalf, stage), Contains("aten::mul"));
  }
}

}  // namespace
}  // namespace zero
