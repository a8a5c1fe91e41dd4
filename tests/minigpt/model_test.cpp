#include "examples/minigpt/model.h"

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <gmock/gmock.h>

#include <cmath>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

namespace minigpt {
namespace {

using ::testing::ElementsAreArray;

constexpr ModelOptions kOptions{.layers = 2, .width = 64, .heads = 4, .context = 32};

MiniGpt make_model() {
  torch::manual_seed(1);
  return MiniGpt(kOptions);
}

TEST(MiniGpt, RegistersItsParametersUnderTheirPublishedNames) {
  std::vector<std::string> expected = {"token_embedding.weight", "position_embedding.weight"};
  for (const std::string block : {"blocks.0.", "blocks.1."}) {
    for (const std::string part : {"ln1", "qkv", "proj", "ln2", "fc", "fc_out"}) {
      expected.push_back(block + part + ".weight");
      expected.push_back(block + part + ".bias");
    }
  }
  expected.insert(expected.end(), {"ln_f.weight", "ln_f.bias", "head.weight"});
  EXPECT_THAT(make_model()->named_parameters().keys(), ElementsAreArray(expected));
}

TEST(MiniGpt, HeadAndTokenEmbeddingAreOneTensor) {
  auto parameters = make_model()->named_parameters();
  EXPECT_TRUE(parameters["head.weight"].is_same(parameters["token_embedding.weight"]));
}

TEST(MiniGpt, StartsFromSmallNormalMatricesZeroBiasesAndUnitNorms) {
  const double residual = 0.02 / std::sqrt(2.0 * static_cast<double>(kOptions.layers));
  for (const auto& item : make_model()->named_parameters()) {
    const std::string& name = item.key();
    const torch::Tensor& value = item.value();
    if (name.ends_with(".bias")) {
      EXPECT_TRUE(torch::equal(value, torch::zeros_like(value))) << name;
    } else if (value.dim() == 1) {
      EXPECT_TRUE(torch::equal(value, torch::ones_like(value))) << name;
    } else {
      const bool is_residual = name.find("proj") != name.npos || name.find("fc_out") != name.npos;
      const double deviation = is_residual ? residual : 0.02;
      // Five standard errors of a sample of this size.
      const double error = 5.0 / std::sqrt(2.0 * static_cast<double>(value.numel()));
      EXPECT_NEAR(value.std().item<double>() / deviation, 1.0, error) << name;
      EXPECT_NEAR(value.mean().item<double>() / deviation, 0.0, 1.5 * error) << name;
    }
  }
}

TEST(MiniGpt, ALaterByteChangesNoEarlierPrediction) {
  const torch::NoGradGuard no_grad;
  MiniGpt model = make_model();
  const torch::Tensor tokens = torch::arange(kOptions.context).view({1, -1}) * 7 % 256;
  torch::Tensor changed = tokens.clone();
  changed[0][20] = 3;
  const torch::Tensor before = model->forward(tokens);
  const torch::Tensor after = model->forward(changed);
  EXPECT_TRUE(torch::allclose(before.narrow(1, 0, 20), after.narrow(1, 0, 20), 0, 1e-6));
  EXPECT_FALSE(torch::allclose(before.narrow(1, 20, 1), after.narrow(1, 20, 1), 0, 1e-4));
}

TEST(MiniGpt, LossIsTheMeanCrossEntropyOfEachNextByte) {
  const torch::NoGradGuard no_grad;
  MiniGpt model = make_model();
  const torch::Tensor windows = torch::arange(2 * 9).view({2, 9}) * 11 % 256;
  const torch::Tensor log_probabilities =
      torch::log_softmax(model->forward(windows.narrow(1, 0, 8)).to(torch::kDouble), -1);
  double sum = 0;
  for (std::int64_t row = 0; row < 2; ++row) {
    for (std::int64_t time = 0; time < 8; ++time) {
      const auto next = windows[row][time + 1].item<std::int64_t>();
      sum -= log_probabilities[row][time][next].item<double>();
    }
  }
  EXPECT_NEAR(model->loss(windows).item<double>(), sum / 16, 1e-5);
}

torch::Tensor loss_with(double dropout, bool is_training, std::uint64_t seed) {
  ModelOptions options = kOptions;
  options.dropout = dropout;
  torch::manual_seed(1);
  MiniGpt model(options);
  model->train(is_training);
  torch::manual_seed(seed);
  return model->loss(torch::arange(4 * 33).view({4, 33}) * 11 % 256);
}

TEST(MiniGpt, DropoutDrawsInTrainingAlone) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor without = loss_with(0, true, 1);
  EXPECT_FALSE(torch::equal(loss_with(0.5, true, 1), without));
  EXPECT_FALSE(torch::equal(loss_with(0.5, true, 1), loss_with(0.5, true, 2)));
  EXPECT_TRUE(torch::equal(loss_with(0.5, true, 1), loss_with(0.5, true, 1)));
  EXPECT_TRUE(torch::equal(loss_with(0.5, false, 1), without));
}

/// LibTorch's CPU memory that this thread has taken and not given back.
class LiveBytes : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, std::int64_t size, std::size_t, std::size_t, c10::Device) override {
    live += size;
  }
  bool memoryProfilingEnabled() const override { return true; }
  std::int64_t live = 0;
};

TEST(MiniGpt, RecomputedBlocksGiveTheGradientsOfKeptOnesAndKeepLess) {
  std::vector<std::vector<torch::Tensor>> gradients;
  std::vector<std::int64_t> kept;
  for (const bool recompute : {false, true}) {
    ModelOptions options = kOptions;
    options.dropout = 0.3;
    options.recompute = recompute;
    torch::manual_seed(1);
    MiniGpt model(options);
    const auto bytes = std::make_shared<LiveBytes>();
    const c10::DebugInfoGuard watch(c10::DebugInfoKind::PROFILER_STATE, bytes);
    const torch::Tensor loss = model->loss(torch::arange(4 * 33).view({4, 33}) * 11 % 256);
    kept.push_back(bytes->live);
    loss.backward();
    auto& of_model = gradients.emplace_back();
    for (const auto& parameter : model->parameters()) of_model.push_back(parameter.grad());
  }
  for (std::size_t i = 0; i < gradients[0].size(); ++i)
    EXPECT_TRUE(torch::equal(gradients[0][i], gradients[1][i])) << i;
  EXPECT_LT(kept[1], kept[0] / 2);
}

TEST(MiniGpt, WithoutDropoutNoRandomNumberIsDrawn) {
  loss_with(0, true, 5);
  const torch::Tensor after = torch::rand({4});
  torch::manual_seed(5);
  EXPECT_TRUE(torch::equal(after, torch::rand({4})));
}

/// What a block adds to `x` in training, with the parameters that start with `silenced` set to
/// zero.
torch::Tensor branch_of(const torch::Tensor& x, const std::string& silenced) {
  torch::manual_seed(3);
  Block block(ModelOptions{.layers = 1, .width = 64, .heads = 1, .context = 32, .dropout = 0.5});
  for (auto& parameter : block->named_parameters()) {
    if (parameter.key().starts_with(silenced) || parameter.key() == "proj.bias")
      parameter.value().zero_();
  }
  return block(x) - x;
}

TEST(MiniGpt, DropoutReachesBothResidualBranchesAndAttention) {
  const torch::NoGradGuard no_grad;
  const auto zeros = [](const torch::Tensor& branch) { return branch.eq(0).to(torch::kFloat); };
  torch::manual_seed(2);
  const torch::Tensor x = torch::randn({2, 32, 64});
  EXPECT_NEAR(zeros(branch_of(x, "proj")).mean().item<double>(), 0.5, 0.05);  // the MLP's
  EXPECT_NEAR(zeros(branch_of(x, "fc_out")).mean().item<double>(), 0.5, 0.05);
  // One byte attends to itself alone: where that is dropped nothing is left.
  const torch::Tensor single = torch::randn({400, 1, 64});
  EXPECT_NEAR(std::get<0>(zeros(branch_of(single, "fc_out")).min(-1)).mean().item<double>(), 0.5,
              0.15);
}

TEST(MiniGpt, DropoutReachesTheEmbeddings) {
  const torch::NoGradGuard no_grad;
  ModelOptions options = kOptions;
  options.dropout = 0.5;
  MiniGpt model(options);
  for (auto& parameter : model->named_parameters()) {
    if (parameter.key().find("proj") != std::string::npos ||
        parameter.key().find("fc_out") != std::string::npos)
      parameter.value().zero_();
  }
  const torch::Tensor windows = torch::arange(4 * 33).view({4, 33}) * 11 % 256;
  const torch::Tensor training = model->loss(windows);
  model->eval();
  EXPECT_FALSE(torch::equal(training, model->loss(windows)));
}

}  // namespace
}  // namespace minigpt
