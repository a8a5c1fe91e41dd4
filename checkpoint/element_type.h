#pragma once

/// Types of elements of datasets, as files name them.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "libzero/base/dtype.h"

namespace zero::checkpoint {

struct ElementType {
  enum class Kind : std::uint8_t { kTensor, kFloat64, kString };
  Kind kind = Kind::kTensor;
  DType dtype = DType::kUInt8;  ///< kTensor only.
  std::int64_t width = 1;       ///< Bytes of one element.

  static ElementType of(DType dtype) { return {Kind::kTensor, dtype, size_of(dtype)}; }
  static ElementType float64() { return {Kind::kFloat64, DType::kUInt8, 8}; }
  static ElementType string(std::int64_t width) { return {Kind::kString, DType::kUInt8, width}; }
  friend bool operator==(const ElementType&, const ElementType&) = default;
};

/// "float32", ..., "float64", "string17".
std::string to_text(const ElementType& type);
std::optional<ElementType> parse_element_type(std::string_view text);

}  // namespace zero::checkpoint
