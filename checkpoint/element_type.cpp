#include "checkpoint/element_type.h"

#include <charconv>

#include "checkpoint/training_state.h"

namespace zero::checkpoint {

std::string to_text(const ElementType& type) {
  if (type.kind == ElementType::Kind::kFloat64) return "float64";
  if (type.kind == ElementType::Kind::kString) return "string" + std::to_string(type.width);
  return std::string(name_of(type.dtype));
}

std::optional<ElementType> parse_element_type(std::string_view text) {
  for (const DType dtype :
       {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kInt64, DType::kUInt8}) {
    if (text == name_of(dtype)) return ElementType::of(dtype);
  }
  if (text == "float64") return ElementType::float64();
  constexpr std::string_view kString = "string";
  if (!text.starts_with(kString)) return std::nullopt;
  std::int64_t width = 0;
  const char* const end = text.data() + text.size();
  const auto result = std::from_chars(text.data() + kString.size(), end, width);
  const auto limit = static_cast<std::int64_t>(kMaxNameBytes);
  const bool valid = result.ec == std::errc() && result.ptr == end && width >= 1 && width <= limit;
  // One spelling for each type: no sign, no leading zero.
  if (!valid || text != "string" + std::to_string(width)) return std::nullopt;
  return ElementType::string(width);
}

}  // namespace zero::checkpoint
