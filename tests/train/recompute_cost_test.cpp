/// What recompute() keeps between forward and backward.

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "libzero/train/recompute.h"
#include "tests/train/recompute_support.h"

namespace zero {
namespace {

using testing::RecomputedBlock;
using torch::Tensor;

/// Bytes of LibTorch's CPU memory that this thread has taken, less what it has given back, while
/// watched; and their highest value.
class Bytes : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, std::int64_t size, std::size_t, std::size_t, c10::Device) override {
    live += size;
    peak = std::max(peak, live);
  }
  bool memoryProfilingEnabled() const override { return true; }

  std::int64_t live = 0, peak = 0;
};

struct Measured {
  std::int64_t kept;  ///< Between forward and backward.
  std::int64_t peak;
};

Measured measure(bool recomputed) {
  torch::manual_seed(3);
  std::vector<RecomputedBlock> blocks;
  for (int i = 0; i < 24; ++i) blocks.emplace_back(64);
  Tensor x = torch::randn({4, 64, 64});
  for (auto& block : blocks) {  // so that gradients are no part of what is measured
    for (Tensor& parameter : block->parameters())
      parameter.mutable_grad() = torch::zeros_like(parameter);
  }
  x = x.clone();
  const auto bytes = std::make_shared<Bytes>();
  const c10::DebugInfoGuard watch(c10::DebugInfoKind::PROFILER_STATE, bytes);
  for (auto& block : blocks) x = recomputed ? recompute(block, x) : block(x);
  const Tensor loss = x.sum();
  const std::int64_t kept = bytes->live;
  loss.backward();
  return {kept, bytes->peak};
}

TEST(RecomputeCost, A24BlockStackKeepsAQuarterAtMost) {
  const Measured plain = measure(false), recomputed = measure(true);
  EXPECT_GE(plain.kept, 4 * recomputed.kept) << plain.kept << " and " << recomputed.kept;
  EXPECT_GE(plain.peak, 4 * recomputed.peak) << plain.peak << " and " << recomputed.peak;
}

}  // namespace
}  // namespace zero
