#pragma once

/// JSON objects on one line, put together key by key.

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace zero::observe {

/// In quotes, with what JSON forbids escaped; bytes that are no UTF-8 become U+FFFD.
std::string json_string(std::string_view text);

/// The shortest text that reads back as the same double; null where it is not finite, for which
/// JSON has no text.
std::string json_number(double value);

/// Keys stay in the order in which they are added. REQUIRES that each is added once. Not
/// thread-safe.
class JsonObject {
 public:
  /// As json_string() and json_number() write them.
  JsonObject& add(std::string_view key, std::string_view text);
  JsonObject& add(std::string_view key, const char* text) {
    return add(key, std::string_view(text));
  }
  JsonObject& add(std::string_view key, double value);
  JsonObject& add(std::string_view key, std::int64_t value);
  JsonObject& add(std::string_view key, int value) { return add(key, std::int64_t{value}); }
  template <std::same_as<bool> Bool>  // or every pointer would be one
  JsonObject& add(std::string_view key, Bool value) {
    return add_json(key, value ? "true" : "false");
  }
  JsonObject& add(std::string_view key, std::span<const std::int64_t> values);
  JsonObject& add(std::string_view key, const JsonObject& object);
  /// `json`: a number or another value that is JSON already.
  JsonObject& add_json(std::string_view key, std::string_view json);

  /// "{...}" on one line, without a newline.
  std::string text() const { return "{" + members_ + "}"; }

 private:
  std::string members_;
};

}  // namespace zero::observe
