#pragma once

/// XXH3, 128 bits, seed 0: finds accidents; proves nothing against malice.

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace zero::checkpoint {

/// In the order in which it is printed: the high half first.
struct Hash {
  std::array<std::byte, 16> bytes{};
  friend bool operator==(const Hash&, const Hash&) = default;
};

Hash hash_of(std::span<const std::byte> data) noexcept;
Hash hash_of(std::string_view text) noexcept;

/// 32 lowercase hexadecimal digits.
std::string to_text(const Hash& hash);

/// False unless text is exactly such digits.
bool parse_hash(std::string_view text, Hash& hash) noexcept;

/// The hash of what was added, piece by piece.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;
  void add(std::span<const std::byte> data) noexcept;
  Hash value() const noexcept;
  void reset() noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace zero::checkpoint
