// Every update rule, clipping and average on a device: the bits of the CPU.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/accelerator/device.h"
#include "tests/accelerator/place.h"
#include "tests/accelerator/toy.h"
#include "tests/optim/ranks.h"
#include "tests/optim/rule_case.h"
#include "tests/optim/toy_model.h"

namespace zero::accelerator_test {
namespace {

using Comm = std::shared_ptr<Collective>;
using Configure = std::function<void(Options&, const testing::RuleCase&)>;

struct Clipping {
  std::string name;
  Configure configure = [](Options&, const testing::RuleCase&) {};
};

ParameterGroup group_of_matrices(const testing::RuleCase& rule, double clip_norm) {
  ParameterGroup group;
  group.predicate = [](const std::string&, const at::Tensor& tensor) { return tensor.dim() == 2; };
  group.options = rule.options(3e-3, 0.0);
  group.clip_norm = clip_norm;
  return group;
}

std::vector<Clipping> all_clippings() {
  return {
      {"none"},
      {"by norm", [](Options& o, const testing::RuleCase&) { o.clip_norm(0.05); }},
      {"by value", [](Options& o, const testing::RuleCase&) { o.clip_norm(0).clip_value(1e-3); }},
      {"by group",
       [](Options& o, const testing::RuleCase& rule) {
         o.clip_norm(0.3).groups({group_of_matrices(rule, 0.02)});
       }},
      {"by group, shards inside of blocks of the norm",
       [](Options& o, const testing::RuleCase& rule) {
         o.clip_norm(0.3).groups({group_of_matrices(rule, 0.02)}).shard_alignment(24);
       }}};
}

struct Run {
  testing::RuleCase rule;
  Clipping clipping;
  torch::Dtype dtype = torch::kFloat;
  int stage = 2;
  int world_size = 2;
};

/// Parameters, all that is kept, the average as the model shows it, and norms: rank 0's view.
std::vector<torch::Tensor> train(const Run& run, bool on_device) {
  std::vector<torch::Tensor> result;
  testing::on_ranks(run.world_size, [&](const Comm& comm) {
    const Toy toy(run.dtype, on_device ? device(comm->rank()) : torch::kCPU);
    Options options = in_place(testing::toy_options(run.stage), Place::kDevice);
    options.ema(run.rule.ema).groups({});
    run.clipping.configure(options, run.rule);
    Optimizer optimizer(toy.parameters(), toy.buffers(), run.rule.options(1e-2, 0.1), options,
                        comm);
    std::vector<torch::Tensor> mine;
    const auto add = [&](const torch::Tensor& value) {
      mine.push_back(value.detach().to(torch::kCPU).clone());
    };
    for (std::int64_t step = 0; step < 3; ++step) {
      optimizer.backward(toy.loss(testing::toy_batch(step, comm->rank())));
      const StepResult stepped = optimizer.step();
      add(torch::tensor({stepped.grad_norm, stepped.clip_factor}));
      for (const double norm : stepped.group_norms) add(torch::tensor(norm));
    }
    for (const NamedTensor& item : toy.parameters()) add(item.tensor);
    std::vector<StateKind> kinds = run.rule.kept;
    kinds.push_back(StateKind::kMaster);
    kinds.push_back(StateKind::kGradient);
    for (const StateKind kind : kinds) add(optimizer.gather("second", kind));
    if (run.rule.ema > 0) {
      const auto scope = optimizer.ema_scope();
      for (const NamedTensor& item : toy.parameters()) add(item.tensor);
    }
    optimizer.shutdown();
    if (comm->rank() == 0) result = mine;
  });
  return result;
}

void expect_bits_of_the_cpu(const Run& run) {
  const auto expected = train(run, false), actual = train(run, true);
  ASSERT_EQ(expected.size(), actual.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(torch::equal(expected[i], actual[i]))
        << run.rule.name << ", clipping " << run.clipping.name << ", " << c10::toString(run.dtype)
        << ", stage " << run.stage << ", world " << run.world_size << ", tensor " << i;
  }
}

class RulesOnADevice : public ::testing::TestWithParam<testing::RuleCase> {};

TEST_P(RulesOnADevice, StepClipAndAverageWithTheBitsOfTheCpu) {
  for (const Clipping& clipping : all_clippings()) {
    for (const auto dtype : {torch::kFloat, torch::kBFloat16}) {
      for (const int stage : {0, 2})
        expect_bits_of_the_cpu({GetParam(), clipping, dtype, stage, 2});
    }
  }
  expect_bits_of_the_cpu({GetParam(), all_clippings()[0], torch::kHalf, 1, 1});
}

INSTANTIATE_TEST_SUITE_P(, RulesOnADevice, ::testing::ValuesIn(testing::all_rules()),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace zero::accelerator_test
