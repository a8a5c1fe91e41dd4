/// The norm of each parameter group of the sharded optimizer.

#include "libzero/train/group_norms.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <mutex>
#include <vector>

#include "tests/optim/ranks.h"
#include "tests/optim/toy_model.h"

namespace zero {
namespace {

using testing::on_ranks;
using testing::toy_batch;
using testing::toy_options;
using testing::ToyModel;

constexpr std::int64_t kMicroBatches = 6;

struct Measured {
  std::vector<double> norms;
  double whole = 0;  ///< Of the step.
};

Measured measure(int world, int stage) {
  Measured result;
  std::mutex mutex;
  on_ranks(world, [&](const std::shared_ptr<Collective>& comm) {
    ToyModel model = [&] {
      const std::lock_guard lock(mutex);  // LibTorch's generator belongs to the process
      return ToyModel();
    }();
    Optimizer optimizer(*model, AdamWOptions(), toy_options(stage), comm);
    for (std::int64_t i = comm->rank(); i < kMicroBatches; i += world)
      optimizer.backward(model->loss(toy_batch(0, i)));
    const std::vector<double> before = group_norms(optimizer);
    const StepResult step = optimizer.step();
    const std::vector<double> after = group_norms(optimizer);
    if (comm->rank() == world - 1) {
      EXPECT_EQ(before, after);
      result = {after, step.grad_norm};
    }
    optimizer.shutdown();
  });
  return result;
}

/// From LibTorch's own backward.
std::vector<double> reference() {
  ToyModel model;
  for (std::int64_t i = 0; i < kMicroBatches; ++i) model->loss(toy_batch(0, i)).backward();
  std::vector<double> squares;
  auto comm = make_threads(1, std::chrono::seconds(20)).front();
  ToyModel twin;
  Optimizer optimizer(*twin, AdamWOptions(), toy_options(2), comm);
  squares.resize(optimizer.param_groups().size());
  for (const auto& spec : optimizer.layout().parameters()) {
    if (!spec.trainable || spec.alias_of >= 0) continue;
    const torch::Tensor gradient = model->named_parameters()[spec.name].grad();
    if (!gradient.defined()) continue;
    const torch::Tensor mean = gradient.to(torch::kDouble) / kMicroBatches;
    squares[static_cast<std::size_t>(spec.group)] += (mean * mean).sum().item<double>();
  }
  optimizer.shutdown();
  for (double& value : squares) value = std::sqrt(value);
  return squares;
}

TEST(GroupNorms, AreThoseOfTheMeanGradientWithTheSameBitsOnAnyWorldAtAnyStage) {
  const Measured one = measure(1, 2);
  const std::vector<double> expected = reference();
  ASSERT_EQ(one.norms.size(), expected.size());
  ASSERT_GE(one.norms.size(), 2u);
  double squares = 0;
  for (std::size_t group = 0; group < expected.size(); ++group) {
    EXPECT_NEAR(one.norms[group], expected[group], 1e-5 * expected[group]) << group;
    EXPECT_GT(one.norms[group], 0) << group;
    squares += one.norms[group] * one.norms[group];
  }
  EXPECT_NEAR(std::sqrt(squares), one.whole, 1e-6 * one.whole);
  for (const int stage : {0, 1, 2}) {
    for (const int world : {1, 2, 3}) {
      EXPECT_EQ(measure(world, stage).norms, one.norms) << "stage " << stage << " world " << world;
    }
  }
}

TEST(GroupNorms, OnlyTheGroupWithAnInfiniteGradientIsInfinite) {
  on_ranks(2, [](const std::shared_ptr<Collective>& comm) {
    const torch::Tensor a = torch::ones({5000}, torch::requires_grad());
    const torch::Tensor b = torch::ones({5000}, torch::requires_grad());
    Options options;
    options.groups({{[](const std::string& name, const torch::Tensor&) { return name == "b"; },
                     AdamWOptions()}});
    Optimizer optimizer({{"a", a}, {"b", b}}, {}, AdamWOptions(), options, comm);
    const torch::Tensor factor = torch::ones({5000});
    factor[4999] = std::numeric_limits<float>::infinity();
    optimizer.backward((a * 2).sum() + (b * factor).sum());
    const std::vector<double> norms = group_norms(optimizer);
    EXPECT_NEAR(norms[0], 2 * std::sqrt(5000.0), 1e-9);
    EXPECT_TRUE(std::isinf(norms[1]));
    optimizer.zero_grad();
    optimizer.shutdown();
  });
}

}  // namespace
}  // namespace zero
