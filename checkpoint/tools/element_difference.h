#pragma once

/// Which elements of two tensors differ, bit by bit, and by how much.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "libzero/base/dtype.h"

namespace zero::checkpoint {

struct ElementDifference {
  std::int64_t elements = 0;  ///< Different ones.
  double largest = -1;        ///< |a - b|: 0 if only the bits differ, infinity for NaN or infinity
                              ///< against a number; -1 if there is no different one.
  std::int64_t position = 0;  ///< Of the first with the largest, in row-major order.
  std::uint64_t bits_a = 0, bits_b = 0;  ///< There.
};

/// Adds what differs between two runs of elements, the first of which stands at `position`.
/// REQUIRES equal sizes, whole elements.
void compare_elements(DType dtype, std::span<const std::byte> a, std::span<const std::byte> b,
                      std::int64_t position, ElementDifference& result);

/// "3 of 49 elements differ, largest difference 0.5 at [1, 2]: 1 and 1.5". REQUIRES a different
/// element.
std::string to_text(const ElementDifference& difference, DType dtype,
                    const std::vector<std::int64_t>& shape);

}  // namespace zero::checkpoint
