#pragma once

/// Sums of squares whose bits do not depend on world size, threads or instruction set.

#include <cstdint>

namespace zero {

/// The norm's unit, in elements of the flat order. Every parameter begins at a multiple of it, and
/// so do buckets and shards: which elements share a block does not depend on how they are cut.
inline constexpr std::int64_t kNormBlock = 64;

/// The sum of squares of one block of `count` elements, 0 <= count <= kNormBlock, in fp64: element
/// i goes to lane i mod 16; a lane adds its squares in ascending order of i; then lane l += lane l
/// + 8, then + 4, + 2, + 1. Infinity or NaN exactly when an element is not finite. Throws
/// ContractError for another count. Thread-safe.
double block_sum_of_squares(const float* data, std::int64_t count);

/// Index of the first element that is infinity or NaN, or -1. Thread-safe.
std::int64_t first_nonfinite(const float* data, std::int64_t count) noexcept;

}  // namespace zero
