#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <stdexcept>

#include "tests/optim/pull.h"

// Gradients of small integers, so that sums are exact in every dtype and the right answers are too.

namespace zero {
namespace {

struct AnyModel {
  std::vector<std::vector<std::int64_t>> shapes;
  std::vector<torch::Dtype> dtypes;
  Options options;
  int world_size = 1;
};

/// From rank `rank` (0, 1, ...), for element j of parameter k: between 1 and 5 * 16.
float contribution(int rank, std::size_t k, std::int64_t j) {
  return static_cast<float>((rank + 1) * ((j * 3 + static_cast<std::int64_t>(k) * 5) % 16 + 1));
}

template <typename Function>
std::vector<float> elements(std::int64_t numel, Function function) {
  std::vector<float> values;
  for (std::int64_t j = 0; j < numel; ++j) values.push_back(function(j));
  return values;
}

AnyModel draw() {
  AnyModel model;
  model.world_size = *rc::gen::inRange(1, 6);
  const auto dimension = rc::gen::weightedOneOf<std::int64_t>(
      {{1, rc::gen::just<std::int64_t>(0)}, {9, rc::gen::inRange<std::int64_t>(1, 20)}});
  model.shapes = *rc::gen::container<std::vector<std::vector<std::int64_t>>>(
      *rc::gen::inRange(1, 8),
      rc::gen::container<std::vector<std::int64_t>>(*rc::gen::inRange(0, 4), dimension));
  for (std::size_t k = 0; k < model.shapes.size(); ++k) {
    model.dtypes.push_back(*rc::gen::element(torch::kFloat, torch::kBFloat16, torch::kHalf));
  }
  model.options.stage(*rc::gen::inRange(0, 3))
      .shard_alignment(*rc::gen::element<std::int64_t>(1, 3, 64, 100, 4096))
      .bucket_bytes(*rc::gen::inRange<std::int64_t>(4, 4000))
      .first_bucket_bytes(*rc::gen::inRange<std::int64_t>(4, 4000))
      .loss_scaler({.initial_scale = 16});
  return model;
}

void require_close(const torch::Tensor& actual, const std::vector<float>& expected,
                   double tolerance, const std::string& what) {
  const auto wanted = torch::tensor(expected).view(actual.sizes());
  const auto error = (actual.detach().to(torch::kFloat) - wanted).abs();
  if (!(error <= tolerance * wanted.abs()).all().item<bool>()) {
    throw std::runtime_error("wrong " + what);
  }
}

/// One step on one rank. The mean over ranks 1 + ... + N of N is (N + 1) / 2 times rank 0's part.
void check(const AnyModel& model, const std::shared_ptr<Collective>& comm) {
  std::vector<NamedTensor> parameters;
  auto loss = torch::zeros({}).requires_grad_();
  double squares = 0;
  const float mean = static_cast<float>(model.world_size + 1) / 2;
  for (std::size_t k = 0; k < model.shapes.size(); ++k) {
    parameters.push_back({std::string(1, static_cast<char>('a' + k)),
                          torch::ones(model.shapes[k], model.dtypes[k]).requires_grad_()});
    const auto& p = parameters.back().tensor;
    loss = loss + testing::pull(p, elements(p.numel(), [&](auto j) {
                                  return contribution(comm->rank(), k, j);
                                }));
    for (std::int64_t j = 0; j < p.numel(); ++j)
      squares += std::pow(mean * contribution(0, k, j), 2);
  }
  Optimizer optimizer(parameters, {}, AdamWOptions(0.25).weight_decay(0), model.options, comm);
  optimizer.backward(loss);
  const StepResult result = optimizer.step();
  if (!(std::abs(result.grad_norm - std::sqrt(squares)) <= 1e-14 * result.grad_norm)) {
    throw std::runtime_error("wrong norm");
  }
  for (std::size_t k = 0; k < parameters.size(); ++k) {
    const std::string& name = parameters[k].name;
    const torch::Tensor& p = parameters[k].tensor;
    const auto expected = [&](float factor) {
      return elements(p.numel(), [&](auto j) { return factor * (mean * contribution(0, k, j)); });
    };
    const auto master = optimizer.gather(name, StateKind::kMaster);
    const auto moved = elements(p.numel(), [](auto) { return 0.75f; });
    require_close(optimizer.gather(name, StateKind::kGradient), expected(1), 0,
                  "gradient of " + name);
    require_close(optimizer.gather(name, StateKind::kExpAvg), expected(0.1f), 1e-6,
                  "exp_avg of " + name);
    require_close(master, moved, 1e-6, "master of " + name);
    require_close(p, testing::values_of(master.to(p.scalar_type())), 0, "values of " + name);
  }
  optimizer.shutdown();
}

RC_GTEST_PROP(AnyModel, ReducesStepsAndGathersEveryElementOnce, ()) {
  const AnyModel model = draw();
  RC_TAG(model.options.stage(), model.world_size);
  testing::on_ranks(model.world_size, [&](const auto& comm) { check(model, comm); });
}

}  // namespace
}  // namespace zero
