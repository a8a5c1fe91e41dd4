#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

namespace zero {

/// The name of a call, put together anew each time in the same memory. Not thread-safe.
class Label {
 public:
  /// `room`: characters that need no new memory.
  explicit Label(std::size_t room = 256) { text_.reserve(room); }

  Label& begin(std::string_view text) {
    text_ = text;
    return *this;
  }
  Label& add(std::string_view text) {
    text_ += text;
    return *this;
  }
  Label& add(std::int64_t number) {
    char digits[24];
    text_.append(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
    return *this;
  }
  std::string_view text() const noexcept { return text_; }

 private:
  std::string text_;
};

}  // namespace zero
