#pragma once

/// An exponential moving average over contiguous memory, in the form of
/// torch.optim.swa_utils.get_ema_multi_avg_fn (a lerp):
///
///   e = e + (1 - decay) * (p - e)
///
/// In this form a weight that rests is its own average, to the bit. fp32, each operation rounded on
/// its own, so that every instruction set gives the same bits.

#include <cstdint>

namespace zero {

/// `weight`: 1 - decay, rounded to fp32 once. The arrays may not overlap. Elements do not influence
/// each other. Thread-safe over disjoint memory.
void ema_step(float weight, const float* values, float* average, std::int64_t n);

}  // namespace zero
