#pragma once

/// What one rank keeps between steps, in the memory of a GPU.

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "libzero/layout/layout.h"
#include "libzero/offload/distant_state.h"
#include "libzero/optim/device_lane.h"
#include "libzero/optim/memory_report.h"
#include "libzero/optim/shard_state.h"
#include "libzero/optim/update_rule.h"

namespace zero {

/// All arrays of all buckets lie in one piece of memory, and begin at multiples of 512 bytes. Those
/// of a bucket count as in BucketState.
class DeviceState final : public DistantState {
 public:
  /// 1-D float32, but for block_sums: 1-D float64. Undefined: not kept.
  struct Arrays {
    at::Tensor accumulator;
    at::Tensor block_sums;
    at::Tensor master;
    std::array<at::Tensor, kMostKept> kept;
  };

  /// `states`: of the same layout, without memory. All must outlive this.
  DeviceState(DeviceLane& lane, const Layout& layout, const std::vector<BucketState>& states,
              int world_size);

  const Arrays& of(std::int32_t bucket) const { return arrays_[static_cast<std::size_t>(bucket)]; }

  // On the thread that trains.
  void read(std::int32_t bucket, OffloadedArray array, std::int64_t begin,
            std::span<float> to) override;
  void write(std::int32_t bucket, OffloadedArray array, std::int64_t begin,
             std::span<const float> from) override;
  void visit(std::int32_t bucket, OffloadedArray array, std::int64_t begin, std::int64_t end,
             const Visit& visit) override;
  void flush() override {}
  bool read_gradients(std::int32_t bucket, std::int64_t begin, std::span<float> to) override;
  void read_block_sums(std::int32_t bucket, std::int64_t begin, std::span<double> to) const;

  /// Adds what lies here to the report, elements of parameters apart from holes and padding.
  void add_to(MemoryReport& report) const;
  std::int64_t bytes() const noexcept { return bytes_; }
  /// That all arrays are parts of.
  const at::Tensor& memory() const noexcept { return memory_; }

 private:
  const at::Tensor& tensor(std::int32_t bucket, OffloadedArray array) const;
  /// `to`: 1-D, on the host.
  void copy_out(const at::Tensor& from, std::int64_t begin, const at::Tensor& to) const;

  DeviceLane& lane_;
  const std::vector<BucketState>& states_;
  std::vector<Arrays> arrays_;  // by bucket
  at::Tensor memory_;
  std::int64_t bytes_ = 0;
};

}  // namespace zero
