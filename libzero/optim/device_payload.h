#pragma once

/// How an optimizer's payload travels from the memory of a GPU.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string_view>

#include "libzero/collective/collective.h"
#include "libzero/optim/device_lane.h"

namespace zero {

/// All tensors are 1-D and contiguous on the lane's device. On the communication thread, whose
/// present stream is the lane's. Calls follow what the lane was given, and what it is given
/// afterwards follows them. Throws what Collective's calls throw, Error for a GPU that does not
/// answer.
class DevicePayload {
 public:
  virtual ~DevicePayload() = default;

  /// As Collective::reduce_scatter; block_squares: float64, of each kNormBlock of `out`.
  virtual void reduce_scatter(const at::Tensor& in, const at::Tensor& out, bool accumulate,
                              const at::Tensor& block_squares, std::string_view label) = 0;
  /// As Collective::all_gather, also in place.
  virtual void all_gather(const at::Tensor& in, const at::Tensor& out, std::string_view label) = 0;

  /// Pinned memory that it takes.
  virtual std::int64_t host_bytes() const noexcept { return 0; }
};

/// The largest call of reduce_scatter or all_gather.
struct PayloadSize {
  std::int64_t bytes = 0;       ///< Of what all ranks' slices take together, staged.
  std::int64_t slice_sums = 0;  ///< Elements of one slice of sums.
};

/// One rank adds up on its GPU. More hand the GPU's memory to `comm` where it takes that, otherwise
/// payload goes through pinned memory: in both, the sums have the same bits. Both must outlive it.
std::unique_ptr<DevicePayload> make_device_payload(Collective& comm, DeviceLane& lane,
                                                   const PayloadSize& largest);

}  // namespace zero
