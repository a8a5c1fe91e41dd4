#pragma once

/// Arrays of one floating type as another.

#include <cstddef>
#include <cstdint>
#include <span>

#include "libzero/base/dtype.h"

namespace zero {

enum class FloatType : std::uint8_t { kFloat64, kFloat32, kFloat16, kBFloat16 };

/// Throws ContractError for a type that is not floating.
FloatType float_type_of(DType dtype);

/// Bytes of an element.
std::size_t size_of(FloatType type) noexcept;

/// Elements of `from` as elements of `to`, rounded to nearest, ties to even; float64 goes through
/// float32. NaN stays NaN. As many as there are in the shorter span. Returns how many finite values
/// became infinite. Neither span need be aligned; they must not overlap.
std::int64_t convert_floats(FloatType from, std::span<const std::byte> source, FloatType to,
                            std::span<std::byte> target) noexcept;

}  // namespace zero
