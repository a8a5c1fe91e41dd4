#pragma once

/// Floats rounded to another floating type.

#include <cstdint>

#include "libzero/base/dtype.h"

namespace zero {

/// to[i] = from[i] in `dtype` (float32, bfloat16 or float16), rounded to nearest, ties to even; NaN
/// stays NaN, what is too large becomes infinite. The bits of libzero/base/float16.h on every
/// instruction set. No overlap. Throws ContractError for another dtype.
void narrow_floats(const float* from, std::int64_t count, DType dtype, void* to);

}  // namespace zero
