#pragma once

/// The factor that keeps small fp16 gradients from vanishing (Micikevicius et al. 2018, arXiv
/// 1710.03740, section 3.2).

#include <cstdint>

#include "libzero/base/loss_scaler_state.h"

namespace zero {

/// Numbers of the rule that LossScaler states.
struct LossScalerOptions {
  double initial_scale = 65536;         ///< A positive float32 value, at least min_scale.
  double growth_factor = 2;             ///< At least 1; 1 never grows.
  double backoff_factor = 0.5;          ///< Above 0, at most 1; 1 never falls.
  std::int64_t growth_interval = 2000;  ///< Clean steps in a row until it grows; at least 1.
  std::int32_t hysteresis = 1;  ///< Overflows that it takes for the scale to fall, at least 1.
  double min_scale = 1;         ///< The scale never falls below; a positive float32 value.
  std::int64_t max_consecutive_skips = 0;  ///< exhausted() after so many in a row; 0: never.
};

/// The rule, once a step and after the step was decided with the old scale:
///
/// - Clean step: growth_tracker += 1; when it reaches growth_interval, the scale grows by
///   growth_factor (unless that leaves the range of float32), growth_tracker = 0 and
///   hysteresis_left = hysteresis.
/// - Overflow: growth_tracker = 0; hysteresis_left falls by one, not below 0; when it is 0, the
///   scale falls by backoff_factor, to min_scale at the least.
///
/// So hysteresis is spent once for each growth: after the hysteresis-th overflow each further one
/// makes the scale fall, until a growth interval completes; clean steps in between do not refill
/// it. With hysteresis 1 this is the rule of PyTorch's GradScaler (plus the minimum), with
/// hysteresis h that of Megatron-Core's DynamicGradScaler. The scale is rounded to float32, so that
/// scaling a loss and unscaling its gradients use the same number. Not thread-safe.
class LossScaler {
 public:
  /// Begins with initial_scale. Throws ContractError, naming the option, for one outside the range
  /// that LossScalerOptions states.
  explicit LossScaler(const LossScalerOptions& options = {});

  /// For bf16 and fp32: the scale is exactly 1 for ever; only overflows in a row are counted.
  /// Throws ContractError below 0.
  static LossScaler disabled(std::int64_t max_consecutive_skips = 0);

  /// False: disabled() made it.
  bool enabled() const noexcept { return enabled_; }
  /// The factor of the next loss: a positive float32 value.
  double scale() const noexcept { return state_.scale; }

  /// A step has ended; `overflow`: a gradient was not finite, the step was skipped. Every rank must
  /// pass the same flag, agreed upon beforehand.
  void update(bool overflow);

  /// True when the last max_consecutive_skips steps all overflowed; never where that is 0.
  bool exhausted() const noexcept;

  /// What a checkpoint keeps of it.
  const LossScalerState& state() const noexcept { return state_; }

  /// Takes over a saved state. Options may differ from those it was saved under: a longer tracker
  /// grows at the next clean step, hysteresis_left is cut to hysteresis. Throws ContractError,
  /// leaving the state as it was, for negative counts, a scale that is no positive float32 value or
  /// lies below min_scale, or another scale than 1 when disabled.
  void set_state(const LossScalerState& state);

 private:
  void grow() noexcept;
  void back_off() noexcept;

  LossScalerOptions options_;
  LossScalerState state_;
  bool enabled_ = true;
};

}  // namespace zero
