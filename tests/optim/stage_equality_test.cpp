#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <mutex>

#include "tests/optim/ranks.h"
#include "tests/optim/toy_model.h"

namespace zero {
namespace {

using testing::ToyModel;

constexpr std::int64_t kMicros = 4;
constexpr std::int64_t kSteps = 20;

struct Outcome {
  std::map<std::string, torch::Tensor> parameters;
  std::vector<double> losses;
  std::vector<double> norms;
  std::vector<bool> applied;
  std::vector<double> scales;
  std::vector<std::string> overflowed;
};

/// Rank 0's view of a run; every other rank's parameters are compared with it on the way.
Outcome train(int world_size, int stage, torch::Dtype dtype, std::int64_t overflow_step = -1) {
  Outcome outcome;
  std::mutex mutex;
  std::vector<std::map<std::string, torch::Tensor>> everyone(static_cast<std::size_t>(world_size));
  testing::on_ranks(world_size, [&](const std::shared_ptr<Collective>& comm) {
    std::unique_lock lock(mutex);  // the default generator belongs to the process
    ToyModel model(dtype);
    lock.unlock();
    Optimizer optimizer(*model, AdamWOptions(1e-2).weight_decay(0.1), testing::toy_options(stage),
                        comm);
    for (std::int64_t step = 0; step < kSteps; ++step) {
      for (std::int64_t i = comm->rank(); i < kMicros; i += comm->size()) {
        auto loss = model->loss(testing::toy_batch(step, i));
        if (step == overflow_step && i == kMicros - 1)
          loss = loss + (model->gain.to(torch::kFloat) * 1e30).sum() * 1e10;
        optimizer.backward(loss);
      }
      const StepResult result = optimizer.step();
      if (comm->rank() != 0) continue;
      outcome.losses.push_back(result.loss);
      outcome.norms.push_back(result.grad_norm);
      outcome.applied.push_back(result.applied);
      outcome.scales.push_back(result.next_loss_scale);
      outcome.overflowed.push_back(result.overflow_parameter);
    }
    optimizer.shutdown();
    for (const auto& parameter : model->named_parameters()) {
      everyone[static_cast<std::size_t>(comm->rank())][parameter.key()] =
          parameter.value().detach().clone();
    }
  });
  outcome.parameters = everyone[0];
  for (const auto& rank : everyone) {
    for (const auto& [name, value] : rank)
      EXPECT_TRUE(torch::equal(value, outcome.parameters[name])) << name;
  }
  return outcome;
}

void expect_same(const Outcome& expected, const Outcome& actual, const std::string& what) {
  EXPECT_EQ(expected.losses, actual.losses) << what;
  EXPECT_EQ(expected.applied, actual.applied) << what;
  EXPECT_EQ(expected.scales, actual.scales) << what;
  EXPECT_EQ(expected.overflowed, actual.overflowed) << what;
  ASSERT_EQ(expected.norms.size(), actual.norms.size());
  for (std::size_t i = 0; i < expected.norms.size(); ++i) {
    if (expected.applied[i]) {
      EXPECT_EQ(expected.norms[i], actual.norms[i]) << what << " step " << i;
    }
  }
  for (const auto& [name, value] : expected.parameters) {
    EXPECT_TRUE(torch::equal(value, actual.parameters.at(name))) << what << " parameter " << name;
  }
}

class StageEquality : public ::testing::TestWithParam<torch::Dtype> {};

TEST_P(StageEquality, TwentyStepsGiveTheSameBitsOnEveryStageAndWorld) {
  const Outcome expected = train(1, 0, GetParam());
  EXPECT_LT(expected.losses.back(), expected.losses.front());
  for (const int world_size : {1, 2, 4}) {
    for (const int stage : {0, 1, 2}) {
      if (world_size == 1 && stage == 0) continue;
      expect_same(expected, train(world_size, stage, GetParam()),
                  "world " + std::to_string(world_size) + " stage " + std::to_string(stage));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, StageEquality,
                         ::testing::Values(torch::kFloat, torch::kBFloat16, torch::kHalf),
                         [](const auto& instance) {
                           return std::string(c10::toString(instance.param));
                         });

TEST(Overflow, OneRankOverflowsAndEveryRankSkipsThatStepAlike) {
  constexpr std::int64_t kStep = 7;
  const Outcome expected = train(1, 0, torch::kHalf, kStep);
  EXPECT_FALSE(expected.applied[kStep]);
  EXPECT_TRUE(expected.applied[kStep - 1]);
  EXPECT_TRUE(expected.applied[kStep + 1]);
  EXPECT_EQ(expected.scales[kStep], expected.scales[kStep - 1] / 2);
  EXPECT_EQ(expected.overflowed[kStep], "gain");
  for (const int world_size : {2, 4}) {
    for (const int stage : {0, 1, 2}) {
      expect_same(expected, train(world_size, stage, torch::kHalf, kStep),
                  "world " + std::to_string(world_size) + " stage " + std::to_string(stage));
    }
  }
}

}  // namespace
}  // namespace zero
