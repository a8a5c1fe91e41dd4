#pragma once

/// Training whose gradients have the same bits on every device: each is a constant, rounded to the
/// parameter's type.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/accelerator/toy.h"
#include "tests/optim/ranks.h"
#include "tests/optim/toy_model.h"

namespace zero::accelerator_test {

using DeviceOf = std::function<c10::Device(int rank)>;

inline torch::Tensor exact_loss(const Toy& toy, std::int64_t step, int rank) {
  torch::Tensor loss;
  std::int64_t number = 0;
  for (const NamedTensor& item : toy.parameters()) {
    if (!item.tensor.requires_grad() || item.name == "output") continue;
    const torch::Tensor wave =
        torch::sin(torch::arange(item.tensor.numel(), torch::kFloat) *
                   (0.37f + 0.01f * static_cast<float>(step * 5 + rank * 3 + number++)));
    const torch::Tensor factor = wave.view(item.tensor.sizes()).to(item.tensor.device());
    const torch::Tensor part = (item.tensor.to(torch::kFloat) * factor).sum();
    loss = loss.defined() ? loss + part : part;
  }
  return loss;
}

inline std::vector<torch::Tensor> train_exactly(const DeviceOf& device_of, int world_size,
                                                int stage, torch::Dtype dtype,
                                                const Options& place) {
  std::vector<torch::Tensor> result;
  testing::on_ranks(world_size, [&](const std::shared_ptr<Collective>& comm) {
    const Toy toy(dtype, device_of(comm->rank()));
    Optimizer optimizer(
        toy.parameters(), toy.buffers(), AdamWOptions(1e-2),
        testing::toy_options(stage).offload(place.offload()).device_kernels(place.device_kernels()),
        comm);
    for (std::int64_t step = 0; step < 5; ++step) {
      optimizer.backward(exact_loss(toy, step, comm->rank()));
      optimizer.step();
    }
    optimizer.shutdown();
    if (comm->rank() != 0) return;
    for (const NamedTensor& item : toy.parameters())
      result.push_back(item.tensor.detach().to(torch::kCPU).clone());
  });
  return result;
}

/// On every stage and dtype, for 1 and 2 ranks. `place`: its offload and kernels.
inline void expect_bits_of_the_cpu(const DeviceOf& device_of, const Options& place) {
  for (const auto dtype : {torch::kFloat, torch::kBFloat16, torch::kHalf}) {
    for (const int world_size : {1, 2}) {
      const auto expected = train_exactly([](int) { return c10::Device(torch::kCPU); }, world_size,
                                          0, dtype, Options());
      for (const int stage : {0, 1, 2}) {
        const auto actual = train_exactly(device_of, world_size, stage, dtype, place);
        ASSERT_EQ(actual.size(), expected.size());
        for (std::size_t i = 0; i < actual.size(); ++i) {
          EXPECT_TRUE(torch::equal(actual[i], expected[i]))
              << c10::toString(dtype) << ", world " << world_size << ", stage " << stage
              << ", parameter " << i;
        }
      }
    }
  }
}

}  // namespace zero::accelerator_test
