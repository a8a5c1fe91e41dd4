#pragma once

/// What a test trains once with libzero and once with LibTorch's own optimizer.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>

namespace zero::testing {

struct TwinNetImpl : torch::nn::Module {
  TwinNetImpl() {
    torch::manual_seed(3);
    first = register_module("first", torch::nn::Linear(12, 33));
    second = register_module("second", torch::nn::Linear(33, 5));
  }
  torch::Tensor loss(const torch::Tensor& x, const torch::Tensor& y) {
    return (second(torch::tanh(first(x))) - y).square().mean();
  }
  torch::nn::Linear first{nullptr}, second{nullptr};
};
TORCH_MODULE(TwinNet);

struct TwinBatch {
  torch::Tensor x, y;
};

inline TwinBatch twin_batch(int step) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<std::uint64_t>(step));
  const auto x = torch::randn({16, 12}, generator, torch::kFloat);
  return {x, torch::randn({16, 5}, generator, torch::kFloat) + 3};
}

/// `tolerance`: a share of the largest element.
inline void expect_close_to_twin(const torch::Tensor& ours, const torch::Tensor& theirs,
                                 double tolerance, const std::string& what) {
  const double error = (ours - theirs).abs().max().item<double>();
  EXPECT_LE(error, tolerance * theirs.abs().max().item<double>()) << what;
}

}  // namespace zero::testing
