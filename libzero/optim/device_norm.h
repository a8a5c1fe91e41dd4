#pragma once

/// The sum of squares of gradients in the memory of a GPU.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "libzero/optim/device_lane.h"
#include "libzero/optim/device_state.h"
#include "libzero/optim/step_vote.h"

namespace zero {

/// Adds up the sums of blocks on the GPU, exactly, and brings a few words to the host. On the
/// thread that trains; the lane must outlive it.
class DeviceNorm {
 public:
  /// So many sums at once.
  DeviceNorm(DeviceLane& lane, std::size_t sums);

  /// From 0 on again.
  void begin();
  /// `blocks`: 1-D float64, on the device.
  void add(std::size_t sum, const at::Tensor& blocks);
  /// Waits for the GPU. Throws as DeviceLane::synchronize().
  const std::vector<GroupSquares>& end();

 private:
  DeviceLane& lane_;
  at::Tensor words_;
  at::Tensor words_on_host_;  // pinned
  std::vector<GroupSquares> sums_;
};

}  // namespace zero
