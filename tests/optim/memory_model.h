#pragma once

/// Models and the formulas of bytes a parameter, for the tests of MemoryReport.

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <vector>

#include "libzero/optim/optimizer.h"

namespace zero::testing {

/// Bytes that all ranks together hold for `numel` trainable elements of `dtype`.
inline std::int64_t table_bytes(int stage, int world_size, torch::Dtype dtype, std::int64_t numel) {
  const bool is_fp32 = dtype == torch::kFloat;
  const std::int64_t n = world_size;
  switch (stage) {
    case 0:
      return numel * (16 * n + 4);
    case 1:
      return numel * (is_fp32 ? 8 * n + 12 : 4 * n + 16);
    default:
      return numel * (is_fp32 ? 4 * n + 12 : 2 * n + 16);
  }
}

/// At most 26 parameters: "a", "b", ...
inline std::vector<NamedTensor> zeros(const std::vector<std::vector<std::int64_t>>& shapes,
                                      torch::Dtype dtype) {
  std::vector<NamedTensor> result;
  for (const auto& shape : shapes) {
    const std::string name(1, static_cast<char>('a' + result.size()));
    result.push_back({name, torch::zeros(shape, dtype).requires_grad_()});
  }
  return result;
}

/// A small language model's shapes: tied embedding and head, odd widths, biases, one frozen part.
struct LanguageModelImpl : torch::nn::Module {
  explicit LanguageModelImpl(torch::Dtype dtype) {
    const std::int64_t width = 36;
    embedding = register_parameter("embedding", torch::zeros({257, width}));
    for (int layer = 0; layer < 3; ++layer) {
      const std::string name = "layer" + std::to_string(layer);
      register_module(name + "_qkv", torch::nn::Linear(width, 3 * width));
      register_module(name + "_norm", torch::nn::LayerNorm(std::vector<std::int64_t>{width}));
      register_module(name + "_mlp", torch::nn::Linear(width, 4 * width));
    }
    register_parameter("position", torch::zeros({65, width}), /*requires_grad=*/false);
    mask = register_buffer("mask", torch::ones({65, 65}, torch::kBool));
    register_parameter("head", embedding);
    for (const auto& p : parameters())
      p.set_data(p.to(dtype));  // not to(): it converts the mask too
  }

  torch::Tensor embedding, mask;
};
TORCH_MODULE(LanguageModel);

}  // namespace zero::testing
