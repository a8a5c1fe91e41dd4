#pragma once

namespace zero {

/// True if this CPU multiplies bfloat16 in hardware (AVX512_BF16 or AMX on x86-64, BF16 on Arm).
/// Without it LibTorch's bf16 and fp16 matrix products are an order of magnitude slower than
/// fp32's.
bool cpu_has_bfloat16() noexcept;

}  // namespace zero
