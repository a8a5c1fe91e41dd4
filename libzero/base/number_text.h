#pragma once

#include <charconv>
#include <cmath>
#include <string>

namespace zero {

/// The shortest decimal text that reads back as the same double: "0.1", "1e-08", "nan" of every
/// sign. The same in every locale, so ranks may compare it.
inline std::string number_text(double value) {
  if (std::isnan(value)) return "nan";
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
}

}  // namespace zero
