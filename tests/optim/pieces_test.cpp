// Buckets larger than their cap, and gradients that wait for their turn.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "libzero/collective/recorder.h"
#include "tests/optim/misuse_support.h"
#include "tests/optim/pull.h"

namespace zero {
namespace {

using testing::Comm;
using testing::numbers;
using testing::on_ranks;
using testing::pull;
using testing::Snapshot;

struct Outcome {
  Snapshot parameters;
  double norm = 0;
  std::int64_t reductions = 0;
};

/// Two steps of a model whose first parameter takes several pieces where the cap is small.
Outcome trained(int world_size, int stage, std::int64_t cap, torch::Dtype dtype) {
  Outcome outcome;
  on_ranks(world_size, [&](const Comm& comm) {
    const Recorded recorded = record_calls(comm);
    auto huge = numbers({100, 500}, 1).to(dtype).requires_grad_();
    auto turned = numbers({300, 70}, 2).to(dtype).t().requires_grad_();
    auto small = numbers({9}, 3).to(dtype).requires_grad_();
    auto options = Options().stage(stage).clip_norm(0.5).bucket_bytes(cap).first_bucket_bytes(cap);
    options.loss_scaler({.initial_scale = 4});
    Optimizer optimizer({{"huge", huge}, {"turned", turned}, {"small", small}}, {},
                        AdamWOptions(1e-2), options, recorded.collective);
    for (int step = 0; step < 2; ++step) {
      for (std::int64_t micro = comm->rank(); micro < 6; micro += world_size) {
        const auto seed = static_cast<double>(10 * step + micro);
        optimizer.backward(pull(huge, numbers({100, 500}, seed)) +
                           pull(turned, numbers({70, 300}, seed)) +
                           pull(small, numbers({9}, seed)));
      }
      const StepResult result = optimizer.step();
      EXPECT_TRUE(result.applied);
      if (comm->rank() == 0) outcome.norm = result.grad_norm;
    }
    if (comm->rank() == 0) {
      outcome.parameters = {{"huge", huge.detach().clone()},
                            {"turned", turned.detach().clone()},
                            {"small", small.detach().clone()}};
      outcome.reductions = recorded.log->of(Operation::kReduceScatter).calls;
    }
    optimizer.shutdown();
  });
  return outcome;
}

TEST(Pieces, GiveTheBitsOfAWholeBucketOnEveryStageWorldAndPrecision) {
  for (const auto dtype : {torch::kFloat, torch::kBFloat16, torch::kHalf}) {
    const Outcome whole = trained(1, 2, 1 << 20, dtype);
    for (const int world_size : {1, 2, 3}) {
      for (const int stage : {0, 1, 2}) {
        SCOPED_TRACE("world " + std::to_string(world_size) + " stage " + std::to_string(stage) +
                     " " + c10::toString(dtype));
        const Outcome cut = trained(world_size, stage, 16 << 10, dtype);
        testing::expect_same(whole.parameters, cut.parameters);
        EXPECT_EQ(whole.norm, cut.norm);
        EXPECT_GT(cut.reductions * world_size, 2 * whole.reductions) << "the test needs pieces";
      }
    }
  }
}

/// Gradients of twelve parameters, a bucket each, that arrive on rank 0 while rank 1 reduces none.
int arrivals_before_the_first_reduction(int stage) {
  constexpr int kParameters = 12;
  std::atomic<int> arrived{0};
  int seen = 0;
  on_ranks(2, [&](const Comm& comm) {
    std::vector<NamedTensor> parameters;
    for (int i = 0; i < kParameters; ++i)
      parameters.push_back(
          {std::string(1, static_cast<char>('a' + i)), testing::parameter({1, 1, 1, 1})});
    Optimizer optimizer(parameters, {}, AdamWOptions(0.1),
                        testing::fine_options(stage).bucket_bytes(16).first_bucket_bytes(16), comm);
    auto loss = torch::zeros({});
    for (NamedTensor& p : parameters) {
      if (comm->rank() == 0) p.tensor.register_hook([&](const torch::Tensor&) { ++arrived; });
      loss = loss + p.tensor.sum();
    }
    if (comm->rank() == 1) {
      const auto give_up = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
      while (arrived < kParameters && std::chrono::steady_clock::now() < give_up)
        std::this_thread::yield();
      seen = arrived;
    }
    optimizer.backward(loss);
    EXPECT_TRUE(optimizer.step().applied);
    optimizer.shutdown();
  });
  EXPECT_EQ(arrived, kParameters);
  return seen;
}

TEST(WaitingGradients, AreBoundedWhereTheyAreLetGoAfterwards) {
  // One is packed, two may wait, and the one that makes it too many.
  EXPECT_LE(arrivals_before_the_first_reduction(2), 4);
}

TEST(WaitingGradients, HoldBackwardUpNowhereElse) {
  EXPECT_EQ(arrivals_before_the_first_reduction(1), 12);
}

}  // namespace
}  // namespace zero
