#pragma once

/// tests/optim/toy_model.h without modules: LibTorch's C++ modules cannot be moved to a device of
/// this kind. Tied, frozen, unused, scalar, zero-size and transposed parameters, and a buffer.

#include <torch/torch.h>

#include <mutex>
#include <vector>

#include "libzero/optim/optimizer.h"

namespace zero::accelerator_test {

struct Toy {
  Toy(torch::Dtype dtype, c10::Device device, std::int64_t width = 24) {
    static std::mutex mutex;  // the default generator belongs to the process
    const std::lock_guard lock(mutex);
    torch::manual_seed(7);
    const auto make = [&](const torch::Tensor& value, bool trains = true) {
      return value.to(dtype).to(device).detach().requires_grad_(trains);
    };
    embedding = make(0.5 * torch::randn({40, width}));
    first = make(0.2 * torch::randn({3 * width, width}));
    first_bias = make(0.1 * torch::randn({3 * width}));
    second = make(0.1 * torch::randn({width, 3 * width}));
    gain = make(torch::tensor(1.25f));
    nothing = make(torch::zeros({0, 8}));
    mixed = make(torch::randn({width, width}).mul_(0.3)).detach().t().requires_grad_();
    frozen = make(torch::randn({width}), false);
    scale = make(torch::full({1}, 2.0f), false);
  }

  std::vector<NamedTensor> parameters() const {
    return {{"embedding", embedding}, {"first", first},   {"first_bias", first_bias},
            {"second", second},       {"gain", gain},     {"nothing", nothing},
            {"mixed", mixed},         {"frozen", frozen}, {"output", embedding}};
  }
  std::vector<NamedTensor> buffers() const { return {{"scale", scale}}; }

  /// tokens: int64 [n], on the CPU. One float32 number.
  torch::Tensor loss(const torch::Tensor& tokens_on_cpu) const {
    const torch::Tensor tokens = tokens_on_cpu.to(embedding.device());
    auto x = torch::embedding(embedding, tokens) + frozen;
    const auto hidden = torch::gelu(torch::matmul(x, first.t()) + first_bias);
    x = x + torch::matmul(hidden, second.t()) * gain;
    x = torch::matmul(x, mixed);
    const auto logits = torch::matmul(x, embedding.t()) / scale;
    return torch::nn::functional::cross_entropy(logits.to(torch::kFloat), tokens.roll(1));
  }

  torch::Tensor embedding, first, first_bias, second, gain, nothing, mixed, frozen, scale;
};

}  // namespace zero::accelerator_test
