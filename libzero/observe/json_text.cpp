#include "libzero/observe/json_text.h"

#include <cmath>

#include "libzero/base/number_text.h"
#include "libzero/base/utf8.h"

namespace zero::observe {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

void append_ascii(std::string& out, char c) {
  constexpr const char* kDigits = "0123456789abcdef";
  if (c == '"' || c == '\\') {
    out += '\\';
    out += c;
  } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
    out += "\\u00";
    out += kDigits[c >> 4];
    out += kDigits[c & 15];
  } else {
    out += c;
  }
}

}  // namespace

std::string json_string(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) {
      out += kReplacement;
    } else if (length == 1) {
      append_ascii(out, text.front());
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out + '"';
}

std::string json_number(double value) {
  return std::isfinite(value) ? number_text(value) : "null";
}

JsonObject& JsonObject::add_json(std::string_view key, std::string_view json) {
  if (!members_.empty()) members_ += ',';
  members_ += json_string(key);
  members_ += ':';
  members_ += json;
  return *this;
}

JsonObject& JsonObject::add(std::string_view key, std::string_view text) {
  return add_json(key, json_string(text));
}
JsonObject& JsonObject::add(std::string_view key, double value) {
  return add_json(key, json_number(value));
}
JsonObject& JsonObject::add(std::string_view key, std::int64_t value) {
  return add_json(key, std::to_string(value));
}
JsonObject& JsonObject::add(std::string_view key, const JsonObject& object) {
  return add_json(key, object.text());
}

JsonObject& JsonObject::add(std::string_view key, std::span<const std::int64_t> values) {
  std::string list = "[";
  for (const std::int64_t value : values) {
    if (list.size() > 1) list += ',';
    list += std::to_string(value);
  }
  return add_json(key, list + "]");
}

}  // namespace zero::observe
