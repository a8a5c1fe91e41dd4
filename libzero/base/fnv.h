#pragma once

#include <cstdint>
#include <string_view>

namespace zero {

/// The 64-bit FNV-1a hash: for comparing what ranks believe, not against malice.
class Fnv1a {
 public:
  void add(std::string_view bytes) noexcept {
    for (const char byte : bytes) add_byte(static_cast<unsigned char>(byte));
    add(static_cast<std::int64_t>(bytes.size()));  // so that "ab", "c" differs from "a", "bc"
  }
  void add(std::int64_t value) noexcept {
    for (int shift = 0; shift < 64; shift += 8) {
      add_byte(static_cast<unsigned char>((static_cast<std::uint64_t>(value) >> shift) & 0xffu));
    }
  }
  std::uint64_t value() const noexcept { return hash_; }

 private:
  void add_byte(unsigned char byte) noexcept { hash_ = (hash_ ^ byte) * 1099511628211u; }

  std::uint64_t hash_ = 14695981039346656037u;
};

}  // namespace zero
