#pragma once

/// The bodies of the kernels of a step: its decision, the update, casts.

#include <bit>
#include <cstdint>

#include "libzero/kernels/adamw_math.h"
#include "libzero/kernels/cuda/abi.h"
#include "libzero/kernels/cuda/elements.h"

namespace zero::cuda {

/// On the bits, so that no compiler flag can assume it away.
ZERO_HOST_DEVICE inline bool is_finite(double value) {
  return (std::bit_cast<std::uint64_t>(value) & 0x7ff0000000000000u) != 0x7ff0000000000000u;
}
ZERO_HOST_DEVICE inline bool is_nan(double value) {
  return (std::bit_cast<std::uint64_t>(value) & 0x7fffffffffffffffu) > 0x7ff0000000000000u;
}

/// The formulas of decide() (libzero/optim/decision.h).
ZERO_HOST_DEVICE inline void decide_step(StepState& state, double clip_norm) {
  const bool apply = state.nonfinite == 0 && is_finite(state.sum_of_squares);
  state.apply = apply ? 1 : 0;
  state.clip_factor = 1;
  state.gradient_factor = 0;
  if (!apply) {
    state.grad_norm = is_nan(state.sum_of_squares)
                          ? state.sum_of_squares
                          : std::bit_cast<double>(std::uint64_t{0x7ff0000000000000u});
    return;
  }
  const double divisor = state.loss_scale * static_cast<double>(state.weight_sum);
  state.grad_norm = std::sqrt(state.sum_of_squares) / divisor;
  if (clip_norm > 0 && state.grad_norm > clip_norm) {
    state.clip_factor = clip_norm / (state.grad_norm + 1e-6);
  }
  state.gradient_factor = static_cast<float>(state.clip_factor / divisor);
}

ZERO_HOST_DEVICE inline void prepare(const PrepareStep& args) {
  StepState& state = *args.state;
  decide_step(state, args.clip_norm);
  if (state.apply == 0) return;
  ++state.applied_steps;
  for (std::int32_t g = 0; g < args.group_count; ++g) {
    args.constants[g] = unchecked_adamw_constants(args.groups[g], state.applied_steps);
  }
}

/// Copy: float where there is no copy of low precision.
template <class Gradient, class Copy>
ZERO_HOST_DEVICE void adamw_at(const AdamWStep& args, const AdamWConstants& constants,
                               float gradient_factor, std::int64_t i) {
  const float raw = widened(static_cast<const Gradient*>(args.gradient)[i]);
  const AdamWElement next = adamw_element(constants, gradient_factor, raw,
                                          {args.master[i], args.exp_avg[i], args.exp_avg_sq[i]});
  args.exp_avg[i] = next.m;
  args.exp_avg_sq[i] = next.v;
  args.master[i] = next.p;
  if constexpr (sizeof(Copy) == 2) store(next.p, static_cast<Copy*>(args.low_precision)[i]);
}

template <class From, class To>
ZERO_HOST_DEVICE void cast_at(const Cast& args, std::int64_t i) {
  store(widened(static_cast<const From*>(args.from)[i]), static_cast<To*>(args.to)[i]);
}

/// Calls function(Gradient(), Copy()) for the types of a step; false for types that have none.
template <class Function>
bool with_step_types(const AdamWStep& args, Function function) {
  return with_element(args.gradient_dtype, [&](auto gradient) {
    if (args.low_precision == nullptr) {
      function(gradient, float());
    } else if (args.low_precision_dtype == DType::kBFloat16) {
      function(gradient, BFloat16());
    } else {
      function(gradient, Float16());
    }
  });
}

}  // namespace zero::cuda
