/// recompute() under the sharded optimizer: gradients come once, so nothing need be deferred.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <string>

#include "libzero/optim/optimizer.h"
#include "libzero/train/recompute.h"
#include "tests/optim/ranks.h"
#include "tests/train/recompute_support.h"

namespace zero {
namespace {

using testing::equal_bits;
using testing::on_ranks;
using testing::RecomputedBlock;
using torch::Tensor;

struct NetImpl : torch::nn::Module {
  NetImpl() {
    for (int i = 0; i < 3; ++i)
      blocks.push_back(register_module("block" + std::to_string(i), RecomputedBlock(16, 0.0)));
  }
  /// The first block is used twice.
  Tensor loss(Tensor x, bool recomputed) {
    for (const int i : {0, 1, 2, 0}) {
      auto& block = blocks[static_cast<std::size_t>(i)];
      x = recomputed ? recompute(block, x) : block(x);
    }
    return (x * x).mean();
  }
  std::vector<RecomputedBlock> blocks;
};
TORCH_MODULE(Net);

/// Rank 0's parameters after three steps of two micro-batches each.
std::map<std::string, Tensor> trained(int world, int stage, bool recomputed) {
  std::map<std::string, Tensor> result;
  std::mutex mutex;
  on_ranks(world, [&](const std::shared_ptr<Collective>& comm) {
    Net net = [&] {
      const std::lock_guard lock(mutex);  // LibTorch's generator belongs to the process
      torch::manual_seed(5);
      return Net();
    }();
    Optimizer optimizer(*net, AdamWOptions(1e-2),
                        Options().stage(stage).bucket_bytes(4096).first_bucket_bytes(1024), comm);
    for (int step = 0; step < 3; ++step) {
      for (int micro = comm->rank(); micro < 4; micro += comm->size()) {
        const Tensor x =
            torch::arange(2 * 3 * 16).view({2, 3, 16}).mul(0.01 * (micro + 1 + step)).sin();
        optimizer.backward(net->loss(x, recomputed));
      }
      EXPECT_TRUE(optimizer.step().applied);
    }
    if (comm->rank() == 0) {
      for (const auto& item : net->named_parameters()) result[item.key()] = item.value().clone();
    }
    optimizer.shutdown();
  });
  return result;
}

TEST(RecomputeOptimizer, ParametersHaveTheBitsOfThePlainRunInEveryStageOnAnyWorld) {
  const auto plain = trained(1, 2, false);
  for (const int stage : {0, 1, 2}) {
    for (const int world : {1, 2}) {
      const auto recomputed = trained(world, stage, true);
      ASSERT_EQ(recomputed.size(), plain.size());
      for (const auto& [name, value] : plain)
        EXPECT_TRUE(equal_bits(recomputed.at(name), value)) << name << " stage " << stage;
    }
  }
}

}  // namespace
}  // namespace zero
