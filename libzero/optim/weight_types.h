#pragma once

/// Element types in weight files, and the way from one to another.

#include <c10/core/ScalarType.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace zero {

/// "F32", "BF16", "I64", ...; "" for types that safetensors does not know.
std::string weight_type_of(c10::ScalarType type);

/// F64, F32, F16, BF16: those that can become one another.
bool is_floating_weight(std::string_view type);

/// Bytes of an element. Throws ContractError for an unknown type.
std::int64_t weight_size(std::string_view type);

/// Elements of `from` as elements of `to`, both floating, rounded to nearest, ties to even, through
/// float32. Returns how many finite values became infinite. REQUIRES room for as many elements.
std::int64_t convert_weights(std::string_view from, std::span<const std::byte> source,
                             std::string_view to, std::span<std::byte> target);

}  // namespace zero
