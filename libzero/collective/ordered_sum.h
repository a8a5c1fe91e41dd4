#pragma once

/// The one place where ranks' numbers are added: in rank order, in fp32, whatever the backend and
/// its segmentation. Pure functions over host memory; any thread.

#include <cstdint>
#include <span>

#include "libzero/collective/collective.h"

namespace zero {

/// One pointer for each rank, in rank order, to as many elements of one dtype.
using Parts = std::span<const void* const>;

/// out[i] = (accumulate ? out[i] : +0) + parts[0][i] + parts[1][i] + ..., each term widened to fp32
/// first. dtype: float32, bfloat16 or float16. Walks in pieces of kEpilogueBlock and calls
/// epilogue(first + begin, count) after each; `first` is where `out` starts in the caller's whole
/// output, a multiple of kEpilogueBlock. No part may overlap out. Throws ContractError for another
/// dtype.
void ordered_sum(Parts parts, DType dtype, float* out, std::int64_t count, bool accumulate,
                 const Epilogue& epilogue = nullptr, std::int64_t first = 0);

/// What all_reduce computes: sums of floating types as above (onto +0), rounded once to dtype;
/// int64 sums (wrapping) and maxima. Every pointer of `outs` receives the result; an out may be one
/// of the parts (exactly, not shifted). Throws ContractError for a pair of dtype and op that
/// all_reduce does not offer.
void ordered_reduce(Parts parts, DType dtype, ReduceOp op, std::span<void* const> outs,
                    std::int64_t count);

}  // namespace zero
