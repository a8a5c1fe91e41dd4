#pragma once

/// A small model with everything that makes layouts hard: tied weights, frozen and unused parts, a
/// scalar, a zero-size and a transposed parameter, several buckets, two groups.

#include <torch/torch.h>

#include <string>
#include <vector>

#include "libzero/optim/optimizer.h"

namespace zero::testing {

struct ToyModelImpl : torch::nn::Module {
  explicit ToyModelImpl(torch::Dtype dtype = torch::kFloat, std::int64_t width = 24) {
    torch::manual_seed(7);
    embedding = register_parameter("embedding", 0.5 * torch::randn({40, width}));
    first = register_module("first", torch::nn::Linear(width, 3 * width));
    second = register_module("second", torch::nn::Linear(3 * width, width));
    gain = register_parameter("gain", torch::tensor(1.25f));
    nothing = register_parameter("nothing", torch::zeros({0, 8}));
    mixed = register_parameter("mixed", torch::randn({width, width}).t().mul_(0.3));
    frozen = register_parameter("frozen", torch::randn({width}), /*requires_grad=*/false);
    output = register_parameter("output", embedding);  // tied
    scale = register_buffer("scale", torch::full({1}, 2.0f));
    to(dtype);
  }

  /// tokens: int64 [n]. One float32 number.
  torch::Tensor loss(const torch::Tensor& tokens) {
    auto x = torch::embedding(embedding, tokens) + frozen;
    x = x + second(torch::gelu(first(x))) * gain;
    x = torch::matmul(x, mixed);
    const auto logits = torch::matmul(x, output.t()) / scale;
    return torch::nn::functional::cross_entropy(logits.to(torch::kFloat), tokens.roll(1));
  }

  torch::Tensor embedding, gain, nothing, mixed, frozen, output, scale;
  torch::nn::Linear first{nullptr}, second{nullptr};
};
TORCH_MODULE(ToyModel);

/// Micro-batch `index` of step `step`: the same on every world size.
inline torch::Tensor toy_batch(std::int64_t step, std::int64_t index) {
  std::vector<std::int64_t> tokens;
  for (std::int64_t i = 0; i < 12; ++i)
    tokens.push_back((step * 31 + index * 17 + i * i * 7 + i) % 40);
  return torch::tensor(tokens, torch::kLong);
}

/// Small buckets, so that parameters meet, straddle and overflow them.
inline Options toy_options(int stage) {
  Options options;
  options.stage(stage).clip_norm(0.5).bucket_bytes(6000).first_bucket_bytes(1000);
  options.groups({{[](const std::string&, const at::Tensor& t) { return t.dim() < 2; },
                   AdamWOptions(2e-2).weight_decay(0.0)}});
  return options;
}

/// Micro-batch i of `global_micros` goes to rank i mod N.
inline void toy_backward(Optimizer& optimizer, ToyModel& model, std::int64_t step,
                         std::int64_t global_micros, int rank, int world_size) {
  for (std::int64_t i = rank; i < global_micros; i += world_size)
    optimizer.backward(model->loss(toy_batch(step, i)));
}

}  // namespace zero::testing
