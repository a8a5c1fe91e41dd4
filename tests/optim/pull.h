#pragma once

/// Tests that prescribe gradients: parameters from a list of numbers, and losses with a known
/// gradient.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "libzero/collective/self.h"
#include "libzero/optim/optimizer.h"
#include "tests/optim/ranks.h"

namespace zero::testing {

inline torch::Tensor parameter(const std::vector<float>& values,
                               torch::Dtype dtype = torch::kFloat) {
  return torch::tensor(values).to(dtype).requires_grad_();
}

/// A float32 loss whose gradient with respect to `parameter` is `gradient`, in the parameter's
/// dtype.
inline torch::Tensor pull(const torch::Tensor& parameter, const torch::Tensor& gradient) {
  return (parameter.to(torch::kFloat) * gradient).sum();
}

inline torch::Tensor pull(const torch::Tensor& parameter, const std::vector<float>& gradient) {
  return pull(parameter, torch::tensor(gradient).view(parameter.sizes()));
}

inline std::vector<float> values_of(const torch::Tensor& tensor) {
  const auto flat = tensor.detach().to(torch::kFloat).contiguous().view({-1});
  return {flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel()};
}

/// Shards cut at any element, so that tiny models really spread over ranks.
inline Options fine_options(int stage) {
  Options options;
  options.stage(stage).shard_alignment(1);
  return options;
}

/// On `world_size` threads, once for each stage; the trace names both.
inline void on_every_stage(
    int world_size,
    const std::function<void(const std::shared_ptr<Collective>& comm, int stage)>& function) {
  for (const int stage : {0, 1, 2}) {
    on_ranks(world_size, [&](const std::shared_ptr<Collective>& comm) {
      SCOPED_TRACE("stage " + std::to_string(stage) + ", rank " + std::to_string(comm->rank()) +
                   " of " + std::to_string(comm->size()));
      function(comm, stage);
    });
  }
}

}  // namespace zero::testing
