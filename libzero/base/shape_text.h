#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace zero {

/// "[7, 5]"; "[]" of a scalar.
inline std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t dimension : shape) {
    text += (text.empty() ? "" : ", ") + std::to_string(dimension);
  }
  return "[" + text + "]";
}

}  // namespace zero
