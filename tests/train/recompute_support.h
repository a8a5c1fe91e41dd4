#pragma once

/// A block to recompute, and everything that training it leaves behind.

#include <torch/torch.h>

#include <functional>
#include <vector>

namespace zero::testing {

/// Norm, attention-like product, dropout, a weight used twice.
struct RecomputedBlockImpl : torch::nn::Module {
  explicit RecomputedBlockImpl(std::int64_t width, double dropout = 0.3) : dropout_(dropout) {
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})));
    in = register_module("in", torch::nn::Linear(width, 4 * width));
    out = register_module("out", torch::nn::Linear(4 * width, width));
    mix = register_parameter("mix", torch::randn({width, width}) / static_cast<double>(width));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    ++calls;
    const auto normed = norm(x);
    const auto weights = torch::matmul(normed, normed.transpose(-1, -2)).softmax(-1);
    const auto y = x + torch::matmul(torch::matmul(torch::matmul(weights, normed), mix), mix);
    return y + torch::dropout(out(torch::gelu(in(y))), dropout_, is_training());
  }

  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Linear in{nullptr}, out{nullptr};
  torch::Tensor mix;
  int calls = 0;

 private:
  double dropout_;
};
TORCH_MODULE(RecomputedBlock);

using Tensors = std::vector<torch::Tensor>;

/// Copies of the gradients of `tensors`; undefined where there is none.
inline Tensors gradients_of(const Tensors& tensors) {
  Tensors gradients;
  for (const torch::Tensor& tensor : tensors)
    gradients.push_back(tensor.grad().defined() ? tensor.grad().clone() : torch::Tensor());
  return gradients;
}

inline bool equal_bits(const torch::Tensor& a, const torch::Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  return a.scalar_type() == b.scalar_type() && torch::equal(a, b);
}

inline bool equal_bits(const Tensors& a, const Tensors& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!equal_bits(a[i], b[i])) return false;
  }
  return true;
}

}  // namespace zero::testing
