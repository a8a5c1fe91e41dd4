#pragma once

/// From the sum of squares to what a step does: a pure function, the same on every rank.

#include <cstdint>

namespace zero {

/// Gradients here are raw: sums over micro-batches of weight * loss_scale * gradient.
struct DecisionInput {
  double sum_of_squares =
      0;  ///< Of the raw gradients of all ranks, each element once; ignored unless finite.
  bool finite = true;           ///< No raw gradient of any rank is infinity or NaN.
  double loss_scale = 1;        ///< The scale that the losses were multiplied by, not the next one.
  std::int64_t weight_sum = 1;  ///< Sum of the weights of all backward calls of all ranks.
  double clip_norm = 0;         ///< Limit of the norm; 0: no clipping.
};

struct Decision {
  bool apply = false;
  /// Norm of the mean gradient, before clipping: sqrt(sum_of_squares) / (loss_scale * weight_sum).
  /// Where there is overflow: NaN if the sum is NaN, otherwise infinity.
  double grad_norm = 0;
  /// Exactly 1 when the norm does not exceed clip_norm, when clipping is off or when the step is
  /// not applied; otherwise clip_norm / (grad_norm + 1e-6).
  double clip_factor = 1;
  /// float(clip_factor / (loss_scale * weight_sum)): raw gradient -> gradient of the step. 0 when
  /// apply is false.
  float gradient_factor = 0;
};

/// Throws ContractError for a loss_scale that is not positive and finite, a weight_sum below 1 or a
/// clip_norm that is negative or NaN. Thread-safe.
Decision decide(const DecisionInput& input);

}  // namespace zero
