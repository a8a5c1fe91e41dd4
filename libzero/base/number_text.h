#pragma once

#include <charconv>
#include <string>

namespace zero {

/// The shortest decimal text that reads back as the same double: "0.1", "1e-08", "nan". The same in
/// every locale, so ranks may compare it.
inline std::string number_text(double value) {
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
}

}  // namespace zero
