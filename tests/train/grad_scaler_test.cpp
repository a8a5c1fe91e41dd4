/// GradScaler does what torch.amp.GradScaler does.

#include "libzero/train/grad_scaler.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <limits>
#include <vector>

#include "libzero/base/error.h"
#include "libzero/collective/self.h"
#include "libzero/optim/optimizer.h"
#include "tests/thrown.h"

namespace zero {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::thrown;
using torch::Tensor;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Tensor parameter(const std::vector<float>& values) {
  return torch::tensor(values).requires_grad_();
}

std::vector<float> values_of(const Tensor& tensor) {
  const Tensor flat = tensor.detach().to(torch::kFloat).contiguous();
  return {flat.const_data_ptr<float>(), flat.const_data_ptr<float>() + flat.numel()};
}

void set_gradient(const Tensor& parameter, const std::vector<float>& values) {
  parameter.mutable_grad() = torch::tensor(values);
}

/// Two optimizers under one scaler, as in the trace.
struct Pair {
  Tensor p = parameter({1, 2}), q = parameter({4});
  torch::optim::SGD a{{p}, torch::optim::SGDOptions(0.5)};
  torch::optim::SGD b{{q}, torch::optim::SGDOptions(0.25)};
  GradScaler scaler{{.initial_scale = 1024, .backoff_factor = 0.25, .growth_interval = 2}};

  struct Applied {
    bool a, b;
  };
  Applied iterate(const std::vector<float>& of_p, const std::vector<float>& of_q) {
    a.zero_grad();
    b.zero_grad();
    const Tensor loss = (p * torch::tensor(of_p)).sum() + (q * torch::tensor(of_q)).sum();
    scaler.scale(loss).backward();
    const Applied applied{scaler.step(a), scaler.step(b)};
    scaler.update();
    return applied;
  }
};

/// From PyTorch 2.11: GradScaler("cpu", init_scale=1024., growth_interval=2, growth_factor=2.,
/// backoff_factor=0.25) over SGD([p], lr=0.5) and SGD([q], lr=0.25), p = [1, 2], q = [4]; each
/// iteration loss = (p * gp).sum() + (q * gq).sum(), scale(loss).backward(), step(a), step(b),
/// update(), then get_scale(), _get_growth_tracker(), p and q were printed.
TEST(GradScaler, FollowsATraceOfPyTorchs) {
  struct Row {
    std::vector<float> gp, gq;
    double scale;
    std::int64_t tracker;
    std::vector<float> p, q;
  };
  const std::vector<Row> trace = {
      {{0.5f, 0.25f}, {1.0f}, 1024, 1, {0.75f, 1.875f}, {3.75f}},
      {{1.0f, 1.0f}, {0.5f}, 2048, 0, {0.25f, 1.375f}, {3.625f}},
      {{kInf, 0.0f}, {1.0f}, 512, 0, {0.25f, 1.375f}, {3.375f}},
      {{1.0f, 0.0f}, {kNan}, 128, 0, {-0.25f, 1.375f}, {3.375f}},
      {{0.5f, 0.5f}, {0.25f}, 128, 1, {-0.5f, 1.125f}, {3.3125f}},
      {{0.25f, 0.25f}, {0.25f}, 256, 0, {-0.625f, 1.0f}, {3.25f}},
      {{1e38f, 0.0f}, {1.0f}, 64, 0, {-0.625f, 1.0f}, {3.0f}},
      {{0.25f, 0.0f}, {1.0f}, 64, 1, {-0.75f, 1.0f}, {2.75f}},
      {{0.5f, 0.5f}, {0.5f}, 128, 0, {-1.0f, 0.75f}, {2.625f}},
  };
  Pair pair;
  for (std::size_t i = 0; i < trace.size(); ++i) {
    pair.iterate(trace[i].gp, trace[i].gq);
    EXPECT_EQ(pair.scaler.get_scale(), trace[i].scale) << i;
    EXPECT_EQ(pair.scaler.state().growth_tracker, trace[i].tracker) << i;
    EXPECT_EQ(values_of(pair.p), trace[i].p) << i;
    EXPECT_EQ(values_of(pair.q), trace[i].q) << i;
  }
}

TEST(GradScaler, EachOptimizerStepsByItsOwnGradients) {
  Pair pair;
  const auto first = pair.iterate({1, kNan}, {1});
  EXPECT_FALSE(first.a);
  EXPECT_TRUE(first.b);
  const auto second = pair.iterate({1, 1}, {1});
  EXPECT_TRUE(second.a && second.b);
}

TEST(GradScaler, UnscaledGradientsAreTheLossesOwn) {
  Pair pair;
  pair.scaler.scale((pair.p * torch::tensor({3.0f, 5.0f})).sum()).backward();
  EXPECT_THAT(values_of(pair.p.grad()), ElementsAre(3 * 1024, 5 * 1024));
  pair.scaler.unscale(pair.a);
  EXPECT_THAT(values_of(pair.p.grad()), ElementsAre(3, 5));
  pair.scaler.step(pair.a);  // does not unscale again
  EXPECT_THAT(values_of(pair.p), ElementsAre(-0.5, -0.5));
}

TEST(GradScaler, ATinyGradientThatFloat16WouldLoseArrives) {
  const Tensor weight = parameter({1});
  torch::optim::SGD sgd({weight}, torch::optim::SGDOptions(1.0));
  const auto gradient = [&](GradScaler scaler) {
    weight.mutable_grad() = Tensor();
    const Tensor half = weight.to(torch::kHalf);  // its gradient is float16
    scaler.scale((half.to(torch::kFloat) * 1e-9).sum()).backward();
    scaler.unscale(sgd);
    return values_of(weight.grad())[0];
  };
  EXPECT_EQ(gradient(GradScaler::disabled()), 0);
  EXPECT_NEAR(gradient(GradScaler()), 1e-9, 1e-11);
}

TEST(GradScaler, TheScaledLossOfAFloat16LossIsFloat32) {
  const Tensor scaled = GradScaler().scale(torch::full({}, 2.0, torch::kHalf));
  EXPECT_EQ(scaled.scalar_type(), torch::kFloat);
  EXPECT_EQ(scaled.item<float>(), 131072);
}

TEST(GradScaler, SparseAndOtherFloatGradientsAreUnscaledToo) {
  const Tensor sparse = torch::zeros({4, 1}, torch::requires_grad());
  const Tensor wide = torch::zeros({2}, torch::dtype(torch::kDouble).requires_grad(true));
  const Tensor none = parameter({1});
  torch::optim::SGD sgd({sparse, none, wide}, torch::optim::SGDOptions(1.0));
  GradScaler scaler({.initial_scale = 4});
  const auto gradient = [](float second) {
    return torch::sparse_coo_tensor(torch::tensor({{1, 1}}), torch::tensor({{2.0f}, {second}}),
                                    {4, 1});
  };
  sparse.mutable_grad() = gradient(6);
  wide.mutable_grad() = torch::full({2}, 8.0, torch::kDouble);
  scaler.unscale(sgd);
  EXPECT_THAT(values_of(sparse.grad().to_dense()), ElementsAre(0, 2, 0, 0));
  EXPECT_THAT(values_of(wide.grad()), ElementsAre(2, 2));
  scaler.update();
  for (const float second : {kInf, 3.4e38f}) {  // finite values of one index, but not their sum
    sparse.mutable_grad() = gradient(second);
    sparse.mutable_grad()._values()[0][0] = 3e38f;
    EXPECT_FALSE(scaler.step(sgd)) << second;
    scaler.update();
  }
}

TEST(GradScaler, DisabledChangesNothing) {
  Pair pair;
  pair.scaler = GradScaler::disabled();
  const auto applied = pair.iterate({kInf, 1}, {1});
  EXPECT_TRUE(applied.a && applied.b);
  EXPECT_EQ(pair.scaler.get_scale(), 1);
  EXPECT_THAT(values_of(pair.q), ElementsAre(3.75));
}

TEST(GradScaler, CallsOutOfOrderAreRefused) {
  Pair pair;
  EXPECT_THAT(thrown<ContractError>([&] { pair.scaler.update(); }),
              HasSubstr("update() comes after unscale() or step()"));
  EXPECT_THAT(thrown<ContractError>([&] { pair.scaler.step(pair.a); }),
              HasSubstr("no parameter of this optimizer has a gradient"));
  set_gradient(pair.p, {1, 1});
  pair.scaler.unscale(pair.a);
  EXPECT_THAT(thrown<ContractError>([&] { pair.scaler.unscale(pair.a); }),
              HasSubstr("would divide its gradients again"));
  EXPECT_THAT(thrown<ContractError>([&] { pair.scaler.state(); }), HasSubstr("middle"));
  EXPECT_THAT(thrown<ContractError>([&] { pair.scaler.set_state({}); }), HasSubstr("middle"));
  EXPECT_TRUE(pair.scaler.step(pair.a));
  EXPECT_THAT(thrown<ContractError>([&] { pair.scaler.step(pair.a); }),
              HasSubstr("step() was called for this optimizer already"));
  EXPECT_THAT(thrown<ContractError>([&] { pair.scaler.unscale(pair.a); }),
              HasSubstr("comes after step()"));
  pair.scaler.update();
  set_gradient(pair.p, {1, 1});
  EXPECT_TRUE(pair.scaler.step(pair.a));
}

TEST(GradScaler, Float16GradientsAndOptimizersWithAScalerOfTheirOwnAreRefused) {
  const Tensor half = torch::ones({2}, torch::dtype(torch::kHalf).requires_grad(true));
  half.mutable_grad() = torch::ones({2}, torch::kHalf);
  const Tensor single = parameter({1});
  set_gradient(single, {1});
  torch::optim::SGD sgd({single, half}, torch::optim::SGDOptions(1.0));
  GradScaler scaler;
  EXPECT_THAT(thrown<ContractError>([&] { scaler.unscale(sgd); }),
              HasSubstr("parameter 1 of group 0"));
  EXPECT_THAT(values_of(single.grad()), ElementsAre(1)) << "nothing was unscaled";
  Optimizer sharded({{"w", single}}, {}, AdamWOptions(), Options(), make_self());
  EXPECT_THAT(thrown<ContractError>([&] { scaler.step(sharded); }), HasSubstr("itself"));
  GradScaler off = GradScaler::disabled();
  EXPECT_THAT(thrown<ContractError>([&] { off.step(sharded); }), HasSubstr("itself"));
  sharded.shutdown();
}

TEST(GradScaler, AStateGoesOnWhereItWas) {
  Pair first;
  first.iterate({1, 1}, {1});
  Pair second;
  second.scaler.set_state(first.scaler.state());
  for (Pair* pair : {&first, &second}) {
    pair->iterate({1, 1}, {1});
    EXPECT_EQ(pair->scaler.get_scale(), 2048);
  }
  EXPECT_EQ(first.scaler.state(), second.scaler.state());
}

TEST(GradScaler, TooManyOverflowsInARowEndTheTraining) {
  Pair pair;
  pair.scaler = GradScaler({.max_consecutive_skips = 2});
  pair.iterate({kInf, 1}, {1});
  EXPECT_THAT(thrown<Error>([&] { pair.iterate({kInf, 1}, {1}); }), HasSubstr("after 2 skips"));
}

}  // namespace
}  // namespace zero
