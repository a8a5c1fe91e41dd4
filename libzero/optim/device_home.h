#pragma once

/// Everything of an optimizer that lies in the memory of a GPU.

#include <ATen/ops/from_blob.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "libzero/optim/device_lane.h"
#include "libzero/optim/device_norm.h"
#include "libzero/optim/device_payload.h"
#include "libzero/optim/device_state.h"
#include "libzero/optim/parameter_table.h"
#include "libzero/optim/pinned_memory.h"

namespace zero {

struct DeviceHome {
  /// `sums`: of squares, at once. `any_order`: of the ranks' gradients. Everything handed over must
  /// outlive this. Throws LibTorch's error where there is no room.
  DeviceHome(const ParameterTable& table, std::shared_ptr<const cuda::KernelApi> kernels,
             std::chrono::milliseconds limit, const Layout& layout,
             const std::vector<BucketState>& states, Collective& comm, const PayloadSize& largest,
             std::size_t sums, bool any_order)
      : lane(table.device, kernels, limit),
        gather_lane(table.device, std::move(kernels), limit),
        state(lane, layout, states, comm.size()),
        staging(staging_of(comm, lane, largest.bytes)),
        payload(make_device_payload(comm, table.device.type(), largest, any_order)),
        norm(lane, sums),
        table_(table) {}

  /// Memory that a hanging GPU may still use is never freed.
  ~DeviceHome() {
    payload.reset();  // waits for what other ranks are needed for
    if (lane.comes_to_rest() && gather_lane.comes_to_rest()) return;
    keep_for_good({staging, state.memory()});
    keep_for_good(table_.tensors);
  }

  /// Collective: tells the communicator of the memory that payload travels in.
  void register_staging(Collective& comm) {
    if (comm.size() > 1 && comm.takes_device_memory())
      registration =
          comm.register_memory(staging.data_ptr(), static_cast<std::int64_t>(staging.nbytes()));
  }

  DeviceLane lane;         ///< Reductions and updates.
  DeviceLane gather_lane;  ///< Gathers of what is updated, while the next is.
  DeviceState state;
  at::Tensor staging;  ///< 1-D, uint8: what travels.
  std::shared_ptr<void> registration;
  std::unique_ptr<DevicePayload> payload;
  DeviceNorm norm;

 private:
  /// Of the communicator's kind of memory, where it has one.
  static at::Tensor staging_of(Collective& comm, DeviceLane& lane, std::int64_t bytes) {
    std::shared_ptr<void> memory;
    if (comm.size() > 1 && comm.takes_device_memory() && bytes > 0)
      memory = comm.device_memory(bytes);
    if (memory == nullptr) return lane.allocate(bytes);
    const auto options = at::TensorOptions().dtype(at::kByte).device(lane.device());
    return at::from_blob(
        memory.get(), {bytes}, [memory](void*) {}, options, lane.device());
  }

  const ParameterTable& table_;
};

}  // namespace zero
