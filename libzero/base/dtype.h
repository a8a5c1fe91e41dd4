#pragma once

#include <cstdint>
#include <string_view>

namespace zero {

/// Element types. Written to disk and sent over the wire: never renumber, never reuse.
enum class DType : std::uint8_t {
  kFloat32 = 1,
  kBFloat16 = 2,
  kFloat16 = 3,
  kInt64 = 4,
  kUInt8 = 5,
};

/// Bytes of one element. Throws ContractError for a value outside the enumeration.
std::int64_t size_of(DType dtype);

/// "float32", "bfloat16", "float16", "int64", "uint8"; "unknown" for a value outside the
/// enumeration. The text is static.
std::string_view name_of(DType dtype) noexcept;

/// True for the types that gradients and parameters may have.
constexpr bool is_floating(DType dtype) noexcept {
  return dtype == DType::kFloat32 || dtype == DType::kBFloat16 || dtype == DType::kFloat16;
}

}  // namespace zero
