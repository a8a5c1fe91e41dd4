#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/optim/pull.h"
#include "tests/optim/torch_twin.h"

namespace zero {
namespace {

constexpr int kSteps = 100;
constexpr double kTolerance = 1e-6;

using Net = testing::TwinNet;
using Batch = testing::TwinBatch;
using testing::twin_batch;

bool is_bias(const std::string&, const at::Tensor& tensor) {
  return tensor.dim() == 1;
}

Optimizer make_ours(Net& net, int stage) {
  Options options = testing::fine_options(stage);
  options.groups({{is_bias, AdamWOptions(3e-3).weight_decay(0.0).betas({0.8, 0.95}).eps(1e-7)}});
  return Optimizer(*net, AdamWOptions(2e-3).weight_decay(0.05), options, make_self());
}

torch::optim::AdamW make_torch(Net& net) {
  using torch::optim::AdamWOptions;
  std::vector<torch::Tensor> weights, biases;
  for (const auto& p : net->parameters()) (p.dim() == 1 ? biases : weights).push_back(p);
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(weights,
                      std::make_unique<AdamWOptions>(AdamWOptions(2e-3).weight_decay(0.05)));
  groups.emplace_back(biases,
                      std::make_unique<AdamWOptions>(
                          AdamWOptions(3e-3).weight_decay(0.0).betas({0.8, 0.95}).eps(1e-7)));
  return torch::optim::AdamW(groups, AdamWOptions(1.0));
}

void expect_close(const torch::Tensor& ours, const torch::Tensor& theirs, const std::string& what) {
  testing::expect_close_to_twin(ours, theirs, kTolerance, what);
}

void expect_same_state(Optimizer& ours, Net& our_net, torch::optim::AdamW& theirs, Net& their_net) {
  for (const auto& item : their_net->named_parameters()) {
    const auto& state = static_cast<const torch::optim::AdamWParamState&>(
        *theirs.state().at(item.value().unsafeGetTensorImpl()));
    const std::string& name = item.key();
    expect_close(our_net->named_parameters()[name], item.value(), name);
    expect_close(ours.gather(name, StateKind::kExpAvg), state.exp_avg(), "exp_avg of " + name);
    expect_close(ours.gather(name, StateKind::kExpAvgSq), state.exp_avg_sq(),
                 "exp_avg_sq of " + name);
    EXPECT_EQ(ours.steps_applied(), state.step());
  }
}

void step_torch(torch::optim::AdamW& optimizer, Net& net, const Batch& data) {
  optimizer.zero_grad();
  net->loss(data.x, data.y).backward();
  optimizer.step();
}

TEST(TorchAdamW, HundredStepsWithTwoGroupsMatch) {
  for (const int stage : {0, 1, 2}) {
    SCOPED_TRACE("stage " + std::to_string(stage));
    Net our_net, their_net;
    auto ours = make_ours(our_net, stage);
    auto theirs = make_torch(their_net);
    for (int step = 0; step < kSteps; ++step) {
      const Batch data = twin_batch(step);
      ours.backward(our_net->loss(data.x, data.y));
      ours.step();
      step_torch(theirs, their_net, data);
    }
    expect_same_state(ours, our_net, theirs, their_net);
  }
}

TEST(TorchAdamW, StepLRDrivesBothAlike) {
  Net our_net, their_net;
  auto ours = make_ours(our_net, 2);
  auto theirs = make_torch(their_net);
  torch::optim::StepLR our_schedule(ours, /*step_size=*/7, /*gamma=*/0.5);
  torch::optim::StepLR their_schedule(theirs, 7, 0.5);
  for (int step = 0; step < 40; ++step) {
    const Batch data = twin_batch(step);
    ours.backward(our_net->loss(data.x, data.y));
    ours.step();
    our_schedule.step();
    step_torch(theirs, their_net, data);
    their_schedule.step();
  }
  EXPECT_EQ(ours.param_groups()[0].options().get_lr(), 2e-3 / 32);
  EXPECT_EQ(ours.param_groups()[1].options().get_lr(), 3e-3 / 32);
  expect_same_state(ours, our_net, theirs, their_net);
}

TEST(TorchAdamW, StepWithAClosureRunsItOnceAndReturnsItsLoss) {
  Net our_net, their_net;
  auto ours = make_ours(our_net, 2);
  auto theirs = make_torch(their_net);
  torch::optim::Optimizer& as_base = ours;
  int calls = 0;
  for (int step = 0; step < 5; ++step) {
    const Batch data = twin_batch(step);
    const torch::Tensor expected = our_net->loss(data.x, data.y).detach();
    const torch::NoGradGuard no_grad;  // as a caller's own evaluation loop might leave it
    const torch::Tensor loss = as_base.step([&] {
      ++calls;
      const auto value = our_net->loss(data.x, data.y);
      ours.backward(value);
      return value;
    });
    EXPECT_TRUE(torch::equal(loss.detach(), expected));
    const torch::AutoGradMode grad(true);
    step_torch(theirs, their_net, data);
  }
  EXPECT_EQ(calls, 5);
  expect_same_state(ours, our_net, theirs, their_net);
}

}  // namespace
}  // namespace zero
