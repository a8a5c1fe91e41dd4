/// Clipping by norm and by value, of all groups or of one.

#include "libzero/train/clip.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>
#include <vector>

#include "libzero/base/error.h"
#include "libzero/collective/self.h"
#include "libzero/optim/optimizer.h"
#include "tests/thrown.h"

namespace zero {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::HasSubstr;
using testing::thrown;
using torch::Tensor;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// Group 0: gradients (3, 4) and none. Group 1: (0, 12) in float64 and (5) as two halves of a
/// sparse one.
struct Groups {
  Tensor a = torch::zeros({2}, torch::requires_grad()),
         none = torch::zeros({2}, torch::requires_grad());
  Tensor b = torch::zeros({2}, torch::dtype(torch::kDouble).requires_grad(true));
  Tensor c = torch::zeros({3, 1}, torch::requires_grad());
  torch::optim::SGD sgd{{a, none}, torch::optim::SGDOptions(1.0)};

  Groups() {
    sgd.add_param_group(torch::optim::OptimizerParamGroup({b, c}));
    a.mutable_grad() = torch::tensor({3.0f, -4.0f});
    b.mutable_grad() = torch::tensor({0.0, 12.0}, torch::kDouble);
    c.mutable_grad() =
        torch::sparse_coo_tensor(torch::tensor({{2, 2}}), torch::tensor({{2.0f}, {3.0f}}), {3, 1});
  }
  float c_value() const { return c.grad().to_dense()[2].item<float>(); }
};

std::vector<float> values_of(const Tensor& tensor) {
  const Tensor flat = tensor.to(torch::kFloat);
  return {flat.const_data_ptr<float>(), flat.const_data_ptr<float>() + flat.numel()};
}

TEST(Clip, NormsByGroup) {
  Groups groups;
  const Clipped l2 = gradient_norms(groups.sgd);
  EXPECT_THAT(l2.group_norms, ElementsAre(DoubleEq(5), DoubleEq(13)));
  EXPECT_DOUBLE_EQ(l2.norm, std::sqrt(194.0));
  const Clipped max = gradient_norms(groups.sgd, NormKind::kMax);
  EXPECT_THAT(max.group_norms, ElementsAre(4, 12));
  EXPECT_EQ(max.norm, 12);
  EXPECT_THAT(values_of(groups.a.grad()), ElementsAre(3, -4));
}

TEST(Clip, ByTheNormOfAll) {
  Groups groups;
  EXPECT_EQ(clip_norm(groups.sgd, 14).factor, 1) << "smaller than that already";
  const Clipped clipped = clip_norm(groups.sgd, std::sqrt(194.0) / 2);
  EXPECT_DOUBLE_EQ(clipped.factor, 0.5);
  EXPECT_DOUBLE_EQ(clipped.norm, std::sqrt(194.0));
  EXPECT_THAT(values_of(groups.a.grad()), ElementsAre(FloatEq(1.5), FloatEq(-2)));
  EXPECT_THAT(values_of(groups.b.grad()), ElementsAre(0, FloatEq(6)));
  EXPECT_FLOAT_EQ(groups.c_value(), 2.5);
  EXPECT_DOUBLE_EQ(clip_norm(groups.sgd, 3, NormKind::kMax).factor, 0.5);
}

TEST(Clip, ByTheNormOfOneGroup) {
  Groups groups;
  const Clipped clipped = clip_group_norm(groups.sgd, 1, 6.5);
  EXPECT_THAT(clipped.group_norms, ElementsAre(0, DoubleEq(13)));
  EXPECT_THAT(values_of(groups.a.grad()), ElementsAre(3, -4));
  EXPECT_THAT(values_of(groups.b.grad()), ElementsAre(0, 6));
  EXPECT_FLOAT_EQ(groups.c_value(), 2.5);
}

TEST(Clip, ByValue) {
  Groups groups;
  EXPECT_DOUBLE_EQ(clip_group_value(groups.sgd, 0, 3.5).norm, 5);
  EXPECT_THAT(values_of(groups.a.grad()), ElementsAre(3, -3.5));
  EXPECT_THAT(values_of(groups.b.grad()), ElementsAre(0, 12));
  clip_value(groups.sgd, 2);
  EXPECT_THAT(values_of(groups.a.grad()), ElementsAre(2, -2));
  EXPECT_THAT(values_of(groups.b.grad()), ElementsAre(0, 2));
  EXPECT_EQ(groups.c_value(), 2);
}

TEST(Clip, WhatIsNotFiniteIsSaidAndDoesNotSpread) {
  for (const float bad : {kInf, kNan}) {
    for (const NormKind kind : {NormKind::kL2, NormKind::kMax}) {
      Groups groups;
      groups.a.mutable_grad()[0] = bad;
      const Clipped clipped = clip_norm(groups.sgd, 1, kind);
      EXPECT_FALSE(clipped.is_finite);
      EXPECT_EQ(clipped.factor, 1);
      EXPECT_EQ(values_of(groups.b.grad())[1], 12);
    }
  }
}

TEST(Clip, SumsInFloat64) {
  Tensor large = torch::zeros({1}, torch::requires_grad());
  large.mutable_grad() = torch::tensor({3e30f});
  torch::optim::SGD sgd({large}, torch::optim::SGDOptions(1.0));
  EXPECT_NEAR(gradient_norms(sgd).norm, 3e30, 1e24);
  EXPECT_TRUE(clip_norm(sgd, 1).is_finite);
  EXPECT_FLOAT_EQ(large.grad()[0].item<float>(), 1);
}

TEST(Clip, MisuseIsNamed) {
  Groups groups;
  EXPECT_THAT(thrown<ContractError>([&] { clip_norm(groups.sgd, 0); }), HasSubstr("max_norm"));
  EXPECT_THAT(thrown<ContractError>([&] { clip_norm(groups.sgd, kNan); }), HasSubstr("nan"));
  EXPECT_THAT(thrown<ContractError>([&] { clip_value(groups.sgd, -1); }), HasSubstr("max_value"));
  EXPECT_THAT(thrown<ContractError>([&] { clip_group_norm(groups.sgd, 2, 1); }),
              HasSubstr("no such group: 2 of 2"));
  Optimizer sharded({{"w", groups.none}}, {}, AdamWOptions(), Options(), make_self());
  EXPECT_THAT(thrown<ContractError>([&] { clip_norm(sharded, 1); }),
              HasSubstr("Options().clip_norm()"));
  sharded.shutdown();
}

}  // namespace
}  // namespace zero
