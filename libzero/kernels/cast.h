#pragma once

#include <cstdint>

#include "libzero/base/dtype.h"

namespace zero {

/// Writes n elements of one floating type as another, rounded to nearest, ties to even; NaN stays
/// NaN. The same bits on every instruction set. The arrays must not overlap. Throws ContractError
/// for a type that is not float32, bfloat16 or float16. Thread-safe over disjoint memory.
void cast_elements(const void* from, DType from_dtype, void* to, DType to_dtype, std::int64_t n);

}  // namespace zero
