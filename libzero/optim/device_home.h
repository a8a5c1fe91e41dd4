#pragma once

/// Everything of an optimizer that lies in the memory of a GPU.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "libzero/optim/device_lane.h"
#include "libzero/optim/device_norm.h"
#include "libzero/optim/device_payload.h"
#include "libzero/optim/device_state.h"

namespace zero {

struct DeviceHome {
  /// `sums`: of squares, at once. Everything handed over must outlive this. Throws LibTorch's error
  /// where there is no room.
  DeviceHome(c10::Device device, std::shared_ptr<const cuda::KernelApi> kernels,
             std::chrono::milliseconds limit, const Layout& layout,
             const std::vector<BucketState>& states, Collective& comm, const PayloadSize& largest,
             std::size_t sums)
      : lane(device, std::move(kernels), limit),
        state(lane, layout, states, comm.size()),
        staging(lane.allocate(largest.bytes)),
        payload(make_device_payload(comm, lane, largest)),
        norm(lane, sums) {}

  DeviceLane lane;  // the last to go: it waits for what the others began
  DeviceState state;
  at::Tensor staging;  ///< 1-D, uint8: what travels.
  std::unique_ptr<DevicePayload> payload;
  DeviceNorm norm;
};

}  // namespace zero
