#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace zero {

/// The 64-bit FNV-1a hash over a fixed serialisation: for comparing what ranks believe, not against
/// malice. The same on every compiler and byte order.
class Fnv1a {
 public:
  /// 8 bytes, least significant first.
  void add(std::int64_t value) noexcept {
    for (int shift = 0; shift < 64; shift += 8) {
      add_byte(static_cast<unsigned char>((static_cast<std::uint64_t>(value) >> shift) & 0xffu));
    }
  }
  void add_size(std::size_t size) noexcept { add(static_cast<std::int64_t>(size)); }

  /// Led by its length, so that "ab", "c" differs from "a", "bc".
  void add(std::string_view bytes) noexcept {
    add_size(bytes.size());
    for (const char byte : bytes) add_byte(static_cast<unsigned char>(byte));
  }

  std::uint64_t value() const noexcept { return hash_; }

 private:
  void add_byte(unsigned char byte) noexcept { hash_ = (hash_ ^ byte) * 0x00000100000001b3u; }

  std::uint64_t hash_ = 0xcbf29ce484222325u;
};

}  // namespace zero
