#include "cli/printable.h"

#include <array>
#include <cstdint>
#include <cstdio>
#include <utility>
#include <vector>

#include "libzero/base/utf8.h"

namespace zero::cli {
namespace {

constexpr std::uint32_t kInvalid = 0xffffffff;

struct Character {
  std::uint32_t code = kInvalid;  // kInvalid: a byte that is no UTF-8
  std::string_view bytes;
};

/// REQUIRES a text that is not empty.
Character first_character(std::string_view text) {
  const std::size_t length = utf8_length(text);
  if (length == 0) return {kInvalid, text.substr(0, 1)};
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  std::uint32_t code = length == 1 ? byte(0) : byte(0) & (0xffu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) code = code << 6 | (byte(i) & 0x3fu);
  return {code, text.substr(0, length)};
}

bool is_harmless(std::uint32_t code) {
  if (code == kInvalid || code < 0x20 || (code >= 0x7f && code < 0xa0)) return false;
  constexpr std::array<std::pair<std::uint32_t, std::uint32_t>, 7> kHidden = {{{0xad, 0xad},
                                                                               {0x61c, 0x61c},
                                                                               {0x200b, 0x200f},
                                                                               {0x2028, 0x202e},
                                                                               {0x2060, 0x206f},
                                                                               {0xfeff, 0xfeff},
                                                                               {0xe0000, 0xe0fff}}};
  for (const auto& [first, last] : kHidden) {
    if (code >= first && code <= last) return false;
  }
  return true;
}

/// Few terminals agree on more than this: combining marks take no column, East Asian letters two.
int columns_of(std::uint32_t code) {
  if (code < 0x300) return 1;
  constexpr std::array<std::pair<std::uint32_t, std::uint32_t>, 3> kCombining = {
      {{0x300, 0x36f}, {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}}};
  for (const auto& [first, last] : kCombining) {
    if (code >= first && code <= last) return 0;
  }
  constexpr std::array<std::pair<std::uint32_t, std::uint32_t>, 7> kWide = {{{0x1100, 0x115f},
                                                                             {0x2e80, 0xa4cf},
                                                                             {0xac00, 0xd7a3},
                                                                             {0xf900, 0xfaff},
                                                                             {0xff00, 0xff60},
                                                                             {0x1f300, 0x1f9ff},
                                                                             {0x20000, 0x3fffd}}};
  for (const auto& [first, last] : kWide) {
    if (code >= first && code <= last) return 2;
  }
  return 1;
}

std::string escape(const Character& character) {
  char text[16];
  if (character.code == kInvalid || character.code < 0x80) {
    std::snprintf(text, sizeof text, "\\x%02x", static_cast<unsigned char>(character.bytes[0]));
  } else {
    std::snprintf(text, sizeof text, "\\u%04x", character.code);
  }
  return text;
}

std::vector<Character> characters_of(std::string_view text) {
  std::vector<Character> characters;
  while (!text.empty()) {
    characters.push_back(first_character(text));
    text.remove_prefix(characters.back().bytes.size());
  }
  return characters;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string result;
  for (const Character& character : characters_of(text)) {
    if (is_harmless(character.code)) {
      result += character.bytes;
    } else {
      result += escape(character);
    }
  }
  return result;
}

int columns_of(std::string_view text) {
  int columns = 0;
  for (const Character& character : characters_of(text)) columns += columns_of(character.code);
  return columns;
}

std::string shortened(std::string_view text, int columns) {
  if (columns_of(text) <= columns) return std::string(text);
  const std::vector<Character> characters = characters_of(text);
  const int for_end = (columns - 1) / 2;
  std::size_t begin = 0, end = characters.size();
  int used = 1;
  while (end > 0 && used + columns_of(characters[end - 1].code) <= 1 + for_end) {
    used += columns_of(characters[--end].code);
  }
  while (begin < end && used + columns_of(characters[begin].code) <= columns) {
    used += columns_of(characters[begin++].code);
  }
  std::string result;
  for (std::size_t i = 0; i < begin; ++i) result += characters[i].bytes;
  result += "\xe2\x80\xa6";  // …
  for (std::size_t i = end; i < characters.size(); ++i) result += characters[i].bytes;
  return result;
}

}  // namespace zero::cli
