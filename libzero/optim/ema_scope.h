#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <utility>
#include <vector>

namespace zero {

/// As long as one lives the model's trainable parameters hold the average of their masters, rounded
/// to their dtype (Optimizer::ema_scope). Its end puts the bits back that were there before,
/// without asking other ranks, whatever happened in between. Holds one copy of the parameters. May
/// outlive the optimizer; parameters must keep their shapes. Not thread-safe.
class [[nodiscard]] EmaScope {
 public:
  /// For Optimizer::ema_scope(): copies `parameters`, of any floating dtype and device, and sets
  /// `flag`, which must not be null, until the end. Throws what LibTorch throws where there is no
  /// memory; nothing was changed then.
  EmaScope(std::vector<at::Tensor> parameters, std::shared_ptr<bool> flag);
  EmaScope(EmaScope&&) noexcept = default;
  EmaScope& operator=(EmaScope&&) = delete;
  ~EmaScope();

 private:
  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> copies_;  // contiguous
  std::shared_ptr<bool> flag_;      // null: moved from
};

}  // namespace zero
