/// SGD beside LibTorch's own, and beside its formulas in double precision.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/optim/pull.h"
#include "tests/optim/torch_twin.h"

namespace zero {
namespace {

using testing::values_of;

struct Mode {
  double momentum;
  bool nesterov;
};
constexpr Mode kModes[] = {{0, false}, {0.9, false}, {0.9, true}};

std::string text_of(const Mode& mode) {
  return "momentum " + std::to_string(mode.momentum) + (mode.nesterov ? ", nesterov" : "");
}

using Net = testing::TwinNet;

void expect_close(const torch::Tensor& ours, const torch::Tensor& theirs, const std::string& what) {
  testing::expect_close_to_twin(ours, theirs, 2e-6, what);
}

/// Without decay, which LibTorch's adds to the gradient.
template <typename Options>
Options biases(const Mode& mode) {
  return Options(3e-2).momentum(mode.momentum > 0 ? 0.8 : 0);
}

template <typename Options>
Options weights(const Mode& mode) {
  return Options(1e-2).momentum(mode.momentum).nesterov(mode.nesterov);
}

torch::optim::SGD make_torch(Net& net, const Mode& mode) {
  using torch::optim::SGDOptions;
  std::vector<torch::Tensor> matrices, vectors;
  for (const auto& p : net->parameters()) (p.dim() == 1 ? vectors : matrices).push_back(p);
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(matrices, std::make_unique<SGDOptions>(weights<SGDOptions>(mode)));
  groups.emplace_back(vectors, std::make_unique<SGDOptions>(biases<SGDOptions>(mode)));
  return torch::optim::SGD(groups, SGDOptions(1.0));
}

Optimizer make_ours(Net& net, const Mode& mode, int stage) {
  Options options = testing::fine_options(stage);
  options.groups({{[](const std::string&, const at::Tensor& tensor) { return tensor.dim() == 1; },
                   biases<SGDOptions>(mode)}});
  return Optimizer(*net, weights<SGDOptions>(mode), options, make_self());
}

TEST(TorchSGD, HundredStepsWithTwoGroupsAndASchedulerMatch) {
  for (const Mode& mode : kModes) {
    for (const int stage : {0, 1, 2}) {
      SCOPED_TRACE(text_of(mode) + ", stage " + std::to_string(stage));
      Net our_net, their_net;
      auto ours = make_ours(our_net, mode, stage);
      auto theirs = make_torch(their_net, mode);
      torch::optim::StepLR our_schedule(ours, /*step_size=*/30, /*gamma=*/0.5);
      torch::optim::StepLR their_schedule(theirs, 30, 0.5);
      for (int step = 0; step < 100; ++step) {
        const auto [x, y] = testing::twin_batch(step);
        ours.backward(our_net->loss(x, y));
        ours.step();
        our_schedule.step();
        theirs.zero_grad();
        their_net->loss(x, y).backward();
        theirs.step();
        their_schedule.step();
      }
      for (const auto& item : their_net->named_parameters()) {
        const std::string& name = item.key();
        expect_close(our_net->named_parameters()[name], item.value(), name);
        if (mode.momentum == 0) continue;
        const auto& state = static_cast<const torch::optim::SGDParamState&>(
            *theirs.state().at(item.value().unsafeGetTensorImpl()));
        expect_close(ours.gather(name, StateKind::kMomentumBuffer), state.momentum_buffer(),
                     "momentum_buffer of " + name);
      }
    }
  }
}

/// LibTorch's weight_decay is another one: a test that decay is not simply the same.
TEST(TorchSGD, DecayIsDecoupledUnlikeLibTorchs) {
  const auto p = testing::parameter({1});
  Optimizer optimizer({{"p", p}}, {}, SGDOptions(0.5).momentum(0.5).weight_decay(0.25), Options(),
                      make_self());
  for (int step = 0; step < 2; ++step) {
    optimizer.backward(testing::pull(p, std::vector<float>{1}));
    optimizer.step();
  }
  // 1 * 0.875 - 0.5, then 0.375 * 0.875 - 0.5 * 1.5. Through the gradient the buffer would hold it.
  EXPECT_EQ(values_of(p)[0], 0.375f * 0.875f - 0.75f);
  EXPECT_EQ(values_of(optimizer.gather("p", StateKind::kMomentumBuffer))[0], 1.5f);
}

/// p and its velocity in doubles, by Sutskever's form, whose velocity contains lr.
struct Reference {
  void step(double gradient, const Mode& mode, double lr, double decay) {
    v = mode.momentum * v - lr * gradient;
    const double move = mode.nesterov ? mode.momentum * v - lr * gradient : v;
    p = p - lr * decay * p + move;
  }
  double p = 0, v = 0;
};

constexpr int kElements = 37;

float element(int i, int step, int rank) {
  return static_cast<float>((i * 5 + step * 3 + rank * 7) % 16 - 6) / 8;
}

void train_beside_reference(const Mode& mode, const std::shared_ptr<Collective>& comm, int stage,
                            torch::Dtype dtype) {
  std::vector<float> initial(kElements);
  std::vector<Reference> expected(kElements);
  for (int i = 0; i < kElements; ++i) {
    initial[static_cast<std::size_t>(i)] = static_cast<float>(i % 9 - 4) / 4;
    expected[static_cast<std::size_t>(i)].p = initial[static_cast<std::size_t>(i)];
  }
  const auto p = testing::parameter(initial, dtype);
  Optimizer optimizer(
      {{"p", p}}, {},
      SGDOptions(0.05).momentum(mode.momentum).nesterov(mode.nesterov).weight_decay(0.2),
      testing::fine_options(stage).loss_scaler({.initial_scale = 256}), comm);
  for (int step = 0; step < 20; ++step) {
    std::vector<float> gradient(kElements);
    for (int i = 0; i < kElements; ++i)
      gradient[static_cast<std::size_t>(i)] = element(i, step, comm->rank());
    optimizer.backward(testing::pull(p, gradient));
    EXPECT_TRUE(optimizer.step().applied);
    for (int i = 0; i < kElements; ++i) {
      double mean = 0;
      for (int rank = 0; rank < comm->size(); ++rank) mean += element(i, step, rank) / comm->size();
      expected[static_cast<std::size_t>(i)].step(mean, mode, 0.05, 0.2);
    }
  }
  const auto master = values_of(optimizer.gather("p", StateKind::kMaster));
  for (std::size_t i = 0; i < kElements; ++i) EXPECT_NEAR(master[i], expected[i].p, 2e-6) << i;
  EXPECT_TRUE(torch::equal(p.detach(), torch::tensor(master).to(dtype)));
  if (mode.momentum > 0) {
    const auto buffer = values_of(optimizer.gather("p", StateKind::kMomentumBuffer));
    for (std::size_t i = 0; i < kElements; ++i)
      EXPECT_NEAR(-0.05 * buffer[i], expected[i].v, 2e-6) << i;
  }
  optimizer.shutdown();
}

TEST(SGDReference, TwentyStepsWithDecayFollowTheFormulasInDoubles) {
  for (const Mode& mode : kModes) {
    for (const auto dtype : {torch::kFloat, torch::kBFloat16, torch::kHalf}) {
      SCOPED_TRACE(text_of(mode) + " " + c10::toString(dtype));
      for (const int world_size : {1, 2}) {
        testing::on_every_stage(world_size,
                                [&](const std::shared_ptr<Collective>& comm, int stage) {
                                  train_beside_reference(mode, comm, stage, dtype);
                                });
      }
    }
  }
}

}  // namespace
}  // namespace zero
