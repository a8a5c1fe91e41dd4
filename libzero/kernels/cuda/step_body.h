#pragma once

/// The bodies of the kernels of a step: its decision, the update, casts.

#include <bit>
#include <cstdint>

#include "libzero/kernels/adamw_math.h"
#include "libzero/kernels/cuda/abi.h"
#include "libzero/kernels/cuda/elements.h"
#include "libzero/kernels/sgd_math.h"

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

struct ScaledGradient {
  float raw;
  float factor;
};

/// What in_clipped_runs() (libzero/optim/clipped_step.h) makes of a gradient. NaN stays.
ZERO_HOST_DEVICE inline ScaledGradient bounded(float raw, float factor, float limit) {
  if (limit == 0) return {raw, factor};
  const float value = raw * factor;
  return {value > limit ? limit : value < -limit ? -limit : value, 1.0f};
}

/// Copy: float where there is no copy of low precision.
template <class Gradient, class Copy>
ZERO_HOST_DEVICE void adamw_at(const AdamWStep& args, const AdamWConstants& constants,
                               float gradient_factor, std::int64_t i) {
  const ScaledGradient g = bounded(widened(static_cast<const Gradient*>(args.gradient)[i]),
                                   gradient_factor, args.value_limit);
  const AdamWElement next = adamw_element(constants, g.factor, g.raw,
                                          {args.master[i], args.exp_avg[i], args.exp_avg_sq[i]});
  args.exp_avg[i] = next.m;
  args.exp_avg_sq[i] = next.v;
  args.master[i] = next.p;
  if constexpr (sizeof(Copy) == 2) store(next.p, static_cast<Copy*>(args.low_precision)[i]);
}

/// Elements 4 q to 4 q + 3, where fours_are_aligned().
template <class Gradient, class Copy>
ZERO_HOST_DEVICE void adamw_four(const AdamWStep& args, const AdamWConstants& constants,
                                 float gradient_factor, std::int64_t q) {
  const Four<Gradient> gradients = four(static_cast<const Gradient*>(args.gradient), q);
  Four<float> p = four(args.master, q), m = four(args.exp_avg, q), v = four(args.exp_avg_sq, q);
  Four<Copy> copies;
  for (int j = 0; j < 4; ++j) {
    const ScaledGradient g = bounded(widened(gradients.of[j]), gradient_factor, args.value_limit);
    const AdamWElement next =
        adamw_element(constants, g.factor, g.raw, {p.of[j], m.of[j], v.of[j]});
    m.of[j] = next.m;
    v.of[j] = next.v;
    p.of[j] = next.p;
    store(next.p, copies.of[j]);
  }
  four(args.exp_avg, q) = m;
  four(args.exp_avg_sq, q) = v;
  four(args.master, q) = p;
  if constexpr (sizeof(Copy) == 2) four(static_cast<Copy*>(args.low_precision), q) = copies;
}

template <class Gradient, class Copy>
ZERO_HOST_DEVICE bool fours_are_aligned(const AdamWStep& args) {
  return is_aligned(static_cast<const Gradient*>(args.gradient)) && is_aligned(args.master) &&
         is_aligned(args.exp_avg) && is_aligned(args.exp_avg_sq) &&
         is_aligned(static_cast<const Copy*>(args.low_precision));
}

template <class Gradient, class Copy>
ZERO_HOST_DEVICE void sgd_at(const SGDStep& args, const SGDConstants& constants,
                             float gradient_factor, std::int64_t i) {
  const ScaledGradient g = bounded(widened(static_cast<const Gradient*>(args.gradient)[i]),
                                   gradient_factor, args.value_limit);
  float next = 0;
  if (args.momentum_buffer == nullptr) {
    next = sgd_element(constants, g.factor, g.raw, args.master[i]);
  } else {
    const SGDElement element =
        sgd_element(constants, g.factor, g.raw, {args.master[i], args.momentum_buffer[i]});
    args.momentum_buffer[i] = element.b;
    next = element.p;
  }
  args.master[i] = next;
  if constexpr (sizeof(Copy) == 2) store(next, static_cast<Copy*>(args.low_precision)[i]);
}

ZERO_HOST_DEVICE inline void average_at(const Average& args, std::int64_t i) {
  const float e = args.average[i];
  args.average[i] = e + args.weight * (args.values[i] - e);
}

template <class From, class To>
ZERO_HOST_DEVICE void cast_at(const Cast& args, std::int64_t i) {
  store(widened(static_cast<const From*>(args.from)[i]), static_cast<To*>(args.to)[i]);
}

template <class From, class To>
ZERO_HOST_DEVICE void cast_four(const Cast& args, std::int64_t q) {
  const Four<From> from = four(static_cast<const From*>(args.from), q);
  Four<To> to;
  for (int j = 0; j < 4; ++j) store(widened(from.of[j]), to.of[j]);
  four(static_cast<To*>(args.to), q) = to;
}

template <class From, class To>
ZERO_HOST_DEVICE bool fours_are_aligned(const Cast& args) {
  return is_aligned(static_cast<const From*>(args.from)) && is_aligned(static_cast<To*>(args.to));
}

/// Calls function(Gradient(), Copy()) for the types of a step; false for types that have none.
template <class Step, class Function>
bool with_step_types(const Step& args, Function function) {
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
