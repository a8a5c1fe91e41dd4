#pragma once

/// The losses of a window on their way to the host.

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Event.h>

#include <chrono>
#include <cstddef>
#include <vector>

#include "libzero/optim/step_vote.h"

namespace zero {

/// A loss on a GPU comes down when its turn on the present stream has come, without anybody waiting
/// for it before take(): backward is given to the GPU while forward still runs. On the thread that
/// trains.
class LossBox {
 public:
  /// `limit`: how long take() waits for each.
  explicit LossBox(std::chrono::milliseconds limit) : limit_(limit) {}

  /// One floating-point number on a GPU: of call `call` of the window.
  void put(std::size_t call, const at::Tensor& loss);
  /// Fills in the losses that were put since the last take() or clear(). Throws CommError where a
  /// GPU does not bring one within the limit.
  void take(std::vector<BackwardCall>& calls);
  void clear() noexcept { used_ = 0; }

 private:
  struct Slot {
    std::size_t call = 0;
    at::Tensor value;  // float64, pinned
    c10::Event arrived;
  };
  Slot& next_slot(c10::Device device);

  const std::chrono::milliseconds limit_;
  std::vector<Slot> slots_;
  std::size_t used_ = 0;
};

}  // namespace zero
