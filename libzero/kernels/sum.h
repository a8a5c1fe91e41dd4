#pragma once

/// The one place where ranks' gradients are added: in rank order, in fp32, and the squares of the
/// sums on the way, while they are in registers.

#include <cstdint>
#include <span>

#include "libzero/base/dtype.h"

namespace zero {

/// One pointer for each rank, in rank order, to as many elements of one dtype.
using Parts = std::span<const void* const>;

/// out[i] = (accumulate ? out[i] : +0) + parts[0][i] + parts[1][i] + ..., each term widened to fp32
/// first. dtype: float32, bfloat16 or float16. No part may overlap out. `block_squares`: null, or
/// receives block_sum_of_squares() of each kNormBlock elements of out, the last one shorter.
/// The same bits on every instruction set. Throws ContractError for another dtype, or no part.
void sum_parts(Parts parts, DType dtype, float* out, std::int64_t count, bool accumulate,
               double* block_squares);

}  // namespace zero
