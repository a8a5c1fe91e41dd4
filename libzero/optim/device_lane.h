#pragma once

/// The GPU that state lies on, and the stream on which everything that touches state runs.

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string_view>

#include "libzero/kernels/cuda/abi.h"

namespace zero {

/// Work of two threads, the one that trains and the communication thread, goes onto one stream: who
/// is given later runs later. Knows LibTorch's devices of any kind; the kernels must be that
/// kind's.
class DeviceLane {
 public:
  /// `limit`: how long the host waits for the GPU before it gives up.
  DeviceLane(c10::Device device, std::shared_ptr<const cuda::KernelApi> kernels,
             std::chrono::milliseconds limit);
  DeviceLane(const DeviceLane&) = delete;
  DeviceLane& operator=(const DeviceLane&) = delete;

  c10::Device device() const noexcept { return stream_.device(); }
  const c10::Stream& stream() const noexcept { return stream_; }
  /// As kernels and communicators know it.
  cuda::Stream native() const noexcept { return native_; }
  const cuda::KernelApi& kernels() const noexcept { return *kernels_; }

  /// Throws Error naming the kernel and the device where a launch was refused.
  void check(int error, std::string_view kernel) const;

  /// Gives the stream a conversion of `from` into `to`'s dtype: 1-D, contiguous, of one length, on
  /// the device. Any thread; throws as check() does.
  void cast(const at::Tensor& from, const at::Tensor& to) const;

  /// The thread that trains: the stream goes on when this thread's present stream has done what it
  /// was given so far.
  void follow_present();
  /// The thread that trains: its present stream goes on when the stream has done what it was given
  /// so far.
  void lead_present();
  /// Waits until the stream has done what it was given so far. Throws CommError after the limit,
  /// naming `what`, and what LibTorch throws where the device fails.
  void synchronize(std::string_view what) const;
  /// The same for what came before the event's record().
  void await(const c10::Event& event, std::string_view what) const;
  /// For destructors: true once the stream touches no memory any more; false where it has not come
  /// to that within the limit, or at once where a wait has been in vain.
  bool comes_to_rest() const noexcept;

  /// 1-D, uint8, zeros, of the stream's own memory. Throws LibTorch's error where there is no room.
  at::Tensor allocate(std::int64_t bytes) const;

 private:
  c10::Stream present_stream() const;

  const std::shared_ptr<const cuda::KernelApi> kernels_;
  const std::chrono::milliseconds limit_;
  const c10::Stream stream_;
  const cuda::Stream native_;
  mutable std::atomic<bool> hangs_ = false;  // a wait was in vain
  c10::Event given_;                         // on the present stream
  c10::Event done_;                          // on the stream
};

/// `given`, or for CUDA those of libzero_cuda_kernels.so. Throws Unavailable saying what is
/// missing.
std::shared_ptr<const cuda::KernelApi> kernels_for(c10::Device device,
                                                   std::shared_ptr<const cuda::KernelApi> given);

}  // namespace zero
