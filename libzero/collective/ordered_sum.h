#pragma once

/// The one place where ranks' numbers are added: in rank order, in fp32, whatever the backend and
/// its segmentation. Pure functions over host memory; any thread.

#include <cstdint>
#include <span>

#include "libzero/collective/collective.h"
#include "libzero/kernels/sum.h"

namespace zero {

/// sum_parts(), with what a reduce_scatter needs around it. `first` is where `out` starts in the
/// caller's whole output, a multiple of kEpilogueBlock. Calls epilogue(first + begin, count) after
/// each kEpilogueBlock elements. `block_squares`: null, or belongs to the whole output: it is
/// written from index first / kNormBlock on. Throws ContractError for a dtype that is not
/// floating.
void ordered_sum(Parts parts, DType dtype, float* out, std::int64_t count, bool accumulate,
                 const Epilogue& epilogue = nullptr, std::int64_t first = 0,
                 double* block_squares = nullptr);

/// What all_reduce computes: sums of floating types as above (onto +0), rounded once to dtype;
/// int64 sums (wrapping) and maxima. Every pointer of `outs` receives the result; an out may be one
/// of the parts (exactly, not shifted). Throws ContractError for a pair of dtype and op that
/// all_reduce does not offer.
void ordered_reduce(Parts parts, DType dtype, ReduceOp op, std::span<void* const> outs,
                    std::int64_t count);

}  // namespace zero
