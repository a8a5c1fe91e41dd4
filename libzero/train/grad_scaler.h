#pragma once

/// Loss scaling for float16 under LibTorch's own optimizers.

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <vector>

#include "libzero/optim/loss_scaler.h"

namespace zero {

/// PyTorch's torch.amp.GradScaler for C++. zero::Optimizer has a loss scaler of its own and is
/// refused here.
///
///   zero::GradScaler scaler;
///   for (auto& batch : data) {
///     optimizer.zero_grad();
///     scaler.scale(model->loss(batch)).backward();
///     scaler.unscale(optimizer);  // only if something, clipping say, wants the gradients themselves
///     if (scaler.step(optimizer)) schedule.step();
///     scaler.update();
///   }
///
/// Of several optimizers each steps or not by its own gradients; update() comes once after all of
/// them, and any overflow makes the scale fall. The rule is LossScaler's: with its defaults
/// PyTorch's, but that the scale never falls below LossScalerOptions::min_scale. Ranks that each
/// have one must hold equal gradients (after an all-reduce), or they will decide differently. Not
/// thread-safe.
class GradScaler {
 public:
  /// Throws ContractError, naming the option.
  explicit GradScaler(const LossScalerOptions& options = {});

  /// For bfloat16 and float32 in the same loop: scale() and unscale() do nothing, step() always
  /// steps.
  static GradScaler disabled();

  /// False of disabled().
  bool enabled() const noexcept { return rule_.enabled(); }
  /// Of the next scale(); 1 of disabled().
  double get_scale() const noexcept { return rule_.scale(); }

  /// The loss times the scale; that of a float16 number is a float32 number, which can hold it.
  at::Tensor scale(const at::Tensor& loss) const;

  /// Divides the gradients of `optimizer` by the scale, in place, and notes whether one is not
  /// finite. step() does it where it was not called. Throws ContractError if it was called, or
  /// step(), since the last update(), and for float16 gradients, naming the first by group and
  /// position: they cannot hold what unscaling makes of them; keep weights in float32 (Autocast) or
  /// use zero::Optimizer; and if there is no gradient at all. Nothing was unscaled then.
  void unscale(torch::optim::Optimizer& optimizer);

  /// Steps unless a gradient was not finite; true if it did. Throws ContractError if it was called
  /// since the last update(), and if there was no gradient at all.
  bool step(torch::optim::Optimizer& optimizer);

  /// Ends the iteration: the scale grows or falls. Throws ContractError if no gradients were looked
  /// at, and Error after LossScalerOptions::max_consecutive_skips overflows in a row.
  void update();

  /// Everything that the next iteration depends on. To be taken after update(); throws
  /// ContractError in the middle of an iteration.
  LossScalerState state() const;

  /// Takes over a saved state, or a scale of the caller's choice. See LossScaler::set_state();
  /// throws ContractError in the middle of an iteration.
  void set_state(const LossScalerState& state);

 private:
  struct Seen {
    torch::optim::Optimizer* optimizer;
    bool found_overflow;
    bool has_stepped;
  };

  explicit GradScaler(const LossScaler& rule) : rule_(rule) {}
  Seen* find(const torch::optim::Optimizer& optimizer);
  void require_between_iterations(const char* what) const;

  LossScaler rule_;
  std::vector<Seen> seen_;  // since the last update, in order of their calls
};

}  // namespace zero
