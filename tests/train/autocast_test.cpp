/// Autocast regions begin, lie within each other and end as PyTorch's do.

#include "libzero/train/autocast.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>

#include "libzero/base/error.h"
#include "tests/thrown.h"

namespace zero {
namespace {

using ::testing::HasSubstr;
using testing::thrown;
namespace F = torch::nn::functional;

torch::Dtype dtype_of_product() {
  return torch::matmul(torch::ones({2, 2}), torch::ones({2, 2})).scalar_type();
}

TEST(Autocast, ProductsAreOfTheRegionsDtypeAndOfTheirOwnOutside) {
  EXPECT_EQ(dtype_of_product(), torch::kFloat);
  {
    const Autocast autocast(torch::kCPU, torch::kBFloat16);
    EXPECT_EQ(dtype_of_product(), torch::kBFloat16);
  }
  EXPECT_EQ(dtype_of_product(), torch::kFloat);
}

TEST(Autocast, RegionsWithinRegionsRestoreWhatWasAroundThem) {
  const AutocastState before = autocast_state(torch::kCPU);
  {
    const Autocast outer(torch::kCPU, torch::kBFloat16);
    {
      const Autocast half(torch::kCPU, torch::kHalf);
      EXPECT_EQ(dtype_of_product(), torch::kHalf);
      {
        const Autocast off = Autocast::off(torch::kCPU);
        EXPECT_EQ(dtype_of_product(), torch::kFloat);
        {
          const Autocast on(torch::kCPU, torch::kBFloat16);
          EXPECT_EQ(dtype_of_product(), torch::kBFloat16);
        }
        EXPECT_EQ(dtype_of_product(), torch::kFloat);
      }
      EXPECT_EQ(dtype_of_product(), torch::kHalf);
    }
    EXPECT_EQ(dtype_of_product(), torch::kBFloat16);
  }
  EXPECT_EQ(autocast_state(torch::kCPU), before);
}

TEST(Autocast, AnotherDevicesRegionChangesNothingHere) {
  const AutocastState before = autocast_state(torch::kCUDA);
  {
    const Autocast cuda(torch::kCUDA, torch::kBFloat16);
    EXPECT_EQ(autocast_state(torch::kCUDA), (AutocastState{true, torch::kBFloat16}));
    EXPECT_EQ(dtype_of_product(), torch::kFloat);
    const Autocast cpu(torch::kCPU, torch::kHalf);
    EXPECT_EQ(dtype_of_product(), torch::kHalf);
    EXPECT_EQ(autocast_state(torch::kCUDA), (AutocastState{true, torch::kBFloat16}));
  }
  EXPECT_EQ(autocast_state(torch::kCUDA), before);
}

TEST(Autocast, AnExceptionEndsTheRegion) {
  const AutocastState before = autocast_state(torch::kCPU);
  try {
    const Autocast outer(torch::kCPU, torch::kHalf);
    const Autocast off = Autocast::off(torch::kCPU);
    throw std::runtime_error("loss");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(autocast_state(torch::kCPU), before);
  const Autocast refused_leaves_nothing(torch::kCPU, torch::kBFloat16);
  EXPECT_THROW(const Autocast refused(torch::kCPU, torch::kFloat), ContractError);
  EXPECT_EQ(dtype_of_product(), torch::kBFloat16);
}

TEST(Autocast, AnotherThreadIsNotAffected) {
  const Autocast autocast(torch::kCPU, torch::kBFloat16);
  torch::Dtype there = torch::kHalf;
  std::thread([&] { there = dtype_of_product(); }).join();
  EXPECT_EQ(there, torch::kFloat);
}

/// The product of ones with a weight that was all `before` when it was last cast.
double product_with(const torch::Tensor& weight) {
  return torch::matmul(torch::ones({1, 1}), weight).to(torch::kFloat).item<double>();
}

TEST(Autocast, AWeightIsCastOnceUntilTheOutermostRegionEnds) {
  torch::Tensor weight = torch::ones({1, 1}, torch::requires_grad());
  const auto set = [&](double value) {
    const torch::NoGradGuard no_grad;
    weight.fill_(value);
  };
  {
    const Autocast outer(torch::kCPU, torch::kBFloat16);
    EXPECT_EQ(product_with(weight), 1);
    {
      const Autocast inner(torch::kCPU, torch::kBFloat16);
      set(2);
      EXPECT_EQ(product_with(weight), 1) << "the cast of the outer region is used";
    }
    EXPECT_EQ(product_with(weight), 1) << "the inner region's end does not drop it";
  }
  const Autocast next(torch::kCPU, torch::kBFloat16);
  EXPECT_EQ(product_with(weight), 2) << "the outermost region's end does";
}

TEST(Autocast, GradientsReachFloat32WeightsInFloat32) {
  torch::Tensor weight = torch::ones({2, 2}, torch::requires_grad());
  torch::Tensor loss;
  {
    const Autocast autocast(torch::kCPU, torch::kBFloat16);
    const torch::Tensor twice = torch::matmul(torch::matmul(torch::ones({2, 2}), weight), weight);
    EXPECT_EQ(twice.scalar_type(), torch::kBFloat16);
    loss = twice.to(torch::kFloat).sum();
  }
  loss.backward();
  ASSERT_TRUE(weight.grad().defined());
  EXPECT_EQ(weight.grad().scalar_type(), torch::kFloat);
  EXPECT_TRUE(torch::equal(weight.grad(), torch::full({2, 2}, 8.0)));
}

TEST(Autocast, AForwardWithoutGradientsDoesNotTakeThemFromTheNext) {
  torch::Tensor weight = torch::ones({2, 2}, torch::requires_grad());
  const Autocast autocast(torch::kCPU, torch::kBFloat16);
  {
    const torch::NoGradGuard no_grad;
    torch::matmul(torch::ones({2, 2}), weight);
  }
  torch::matmul(torch::ones({2, 2}), weight).to(torch::kFloat).sum().backward();
  EXPECT_TRUE(weight.grad().defined());
}

TEST(Autocast, RefusesWhatItCannotCast) {
  EXPECT_THAT(thrown<ContractError>([] { const Autocast refused(torch::kCPU, torch::kFloat); }),
              HasSubstr("must be bfloat16 or float16"));
  EXPECT_THAT(thrown<ContractError>([] { const Autocast refused(torch::kMeta, torch::kHalf); }),
              HasSubstr("has no autocast for this kind of device"));
  EXPECT_THAT(thrown<ContractError>([] { const auto refused = Autocast::off(torch::kMeta); }),
              HasSubstr("meta"));
}

/// dtypes of the result for float32 and for bfloat16 input in a region of bfloat16.
using Dtypes = std::pair<torch::Dtype, torch::Dtype>;
constexpr Dtypes kIn16Bits{torch::kBFloat16, torch::kBFloat16};
constexpr Dtypes kInFloat32{torch::kFloat, torch::kFloat};
constexpr Dtypes kAsGiven{torch::kFloat, torch::kBFloat16};

struct Case {
  std::function<torch::Tensor(const torch::Tensor&)> operation;
  Dtypes expected;
};

/// x: [4, 8]. docs/training.md says the same.
std::map<std::string, Case> cases() {
  const torch::Tensor w = torch::ones({8, 8}), b = torch::ones({8}), target = torch::zeros({4, 8});
  const torch::Tensor classes = torch::zeros({4}, torch::kLong);
  return {
      {"linear", {[=](auto& x) { return F::linear(x, w, b); }, kIn16Bits}},
      {"matmul", {[=](auto& x) { return torch::matmul(x, w); }, kIn16Bits}},
      {"conv1d",
       {[=](auto& x) {
          return torch::conv1d(x.unsqueeze(0), torch::ones({4, 4, 3}));
        },
        kIn16Bits}},
      {"attention",
       {[](auto& x) {
          const auto y = x.unsqueeze(0);
          return at::scaled_dot_product_attention(y, y, y);
        },
        kIn16Bits}},
      {"cross_entropy",
       {[=](auto& x) { return torch::cross_entropy_loss(x, classes); }, kInFloat32}},
      {"nll_loss", {[=](auto& x) { return torch::nll_loss(x, classes); }, kInFloat32}},
      {"mse_loss", {[=](auto& x) { return torch::mse_loss(x, target); }, kInFloat32}},
      {"bce_with_logits",
       {[=](auto& x) { return torch::binary_cross_entropy_with_logits(x, target); }, kInFloat32}},
      {"prod", {[](auto& x) { return x.prod(); }, kInFloat32}},
      {"layer_norm", {[=](auto& x) { return torch::layer_norm(x, {8}, b, b); }, kAsGiven}},
      {"group_norm", {[=](auto& x) { return torch::group_norm(x, 2, b, b); }, kAsGiven}},
      {"batch_norm",
       {[=](auto& x) {
          return torch::batch_norm(x, b, b, torch::zeros({8}), torch::ones({8}), true, 0.1, 1e-5,
                                   false);
        },
        kAsGiven}},
      {"softmax", {[](auto& x) { return x.softmax(-1); }, kAsGiven}},
      {"log_softmax", {[](auto& x) { return x.log_softmax(-1); }, kAsGiven}},
      {"gelu", {[](auto& x) { return torch::gelu(x); }, kAsGiven}},
      {"sum", {[](auto& x) { return x.sum(); }, kAsGiven}},
      {"exp", {[](auto& x) { return x.exp(); }, kAsGiven}},
      {"sum with float32", {[=](auto& x) { return x + target; }, kInFloat32}},
  };
}

TEST(Autocast, OnCpusProductsAre16BitLossesFloat32AndNormsAndSoftmaxAsTheirInput) {
  for (const auto& [name, operation] : cases()) {
    const torch::Tensor x = torch::ones({4, 8}), x16 = x.to(torch::kBFloat16);
    const Autocast autocast(torch::kCPU, torch::kBFloat16);
    EXPECT_EQ(operation.operation(x).scalar_type(), operation.expected.first) << name;
    EXPECT_EQ(operation.operation(x16).scalar_type(), operation.expected.second) << name;
  }
}

TEST(Autocast, AnIslandNeedsTheCastOfItsInput) {
  const Autocast autocast(torch::kCPU, torch::kBFloat16);
  const torch::Tensor logits = torch::matmul(torch::ones({4, 8}), torch::ones({8, 8}));
  const Autocast off = Autocast::off(torch::kCPU);
  EXPECT_EQ(logits.softmax(-1).scalar_type(), torch::kBFloat16);
  EXPECT_EQ(logits.to(torch::kFloat).softmax(-1).scalar_type(), torch::kFloat);
}

}  // namespace
}  // namespace zero
