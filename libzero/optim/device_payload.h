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
///
/// A call may return while the GPU is at work on it: two reductions may be on their way, and any
/// number of gathers, so that the GPU need not wait for the host. What goes wrong with them comes
/// out of a later call or settle().
class DevicePayload {
 public:
  virtual ~DevicePayload() = default;

  /// As Collective::reduce_scatter; block_squares: float64, of each kNormBlock of `out`.
  virtual void reduce_scatter(DeviceLane& lane, const at::Tensor& in, const at::Tensor& out,
                              bool accumulate, const at::Tensor& block_squares,
                              std::string_view label) = 0;
  /// As Collective::all_gather, also in place.
  virtual void all_gather(DeviceLane& lane, const at::Tensor& in, const at::Tensor& out,
                          std::string_view label) = 0;

  /// One more launch is to stand behind calls that may be on their way. A stream takes some
  /// thousand, and holds up who brings another, who can then end nothing that hangs: waits for the
  /// calls well before that. Ranks must ask for the same launches.
  virtual void make_room_for_launch() {}

  /// Waits for the calls that are on their way; throws what went wrong with the first. Due after
  /// the last call of several: nobody else watches over them.
  virtual void settle() {}

  /// Sums have the bits of every other backend, on any number of ranks.
  virtual bool sums_in_rank_order() const noexcept { return true; }

  /// Pinned memory that it takes.
  virtual std::int64_t host_bytes() const noexcept { return 0; }
};

/// The largest call of reduce_scatter or all_gather.
struct PayloadSize {
  std::int64_t bytes = 0;       ///< Of what all ranks' slices take together, staged.
  std::int64_t slice_sums = 0;  ///< Elements of one slice of sums.
};

/// One rank adds up on its GPU. More hand the GPU's memory to `comm` where it takes that, otherwise
/// payload goes through pinned memory: in both, the sums have the same bits, unless `any_order`
/// (see ReduceScatterOptions). `comm` must outlive it.
std::unique_ptr<DevicePayload> make_device_payload(Collective& comm, c10::DeviceType type,
                                                   const PayloadSize& largest, bool any_order);

}  // namespace zero
