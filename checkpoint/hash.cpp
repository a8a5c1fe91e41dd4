#include "checkpoint/hash.h"

#define XXH_INLINE_ALL  // The state lives inside Hasher::State; inlining also lets the compiler
                        // pick vectors.
#include <xxhash.h>

#include <cstring>

namespace zero::checkpoint {
namespace {

Hash canonical(XXH128_hash_t value) noexcept {
  XXH128_canonical_t text;
  XXH128_canonicalFromHash(&text, value);
  Hash hash;
  std::memcpy(hash.bytes.data(), text.digest, hash.bytes.size());
  return hash;
}

int digit_of(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

struct Hasher::State {
  XXH3_state_t xxh;
};

Hash hash_of(std::span<const std::byte> data) noexcept {
  return canonical(XXH3_128bits(data.data(), data.size()));
}

Hash hash_of(std::string_view text) noexcept {
  return canonical(XXH3_128bits(text.data(), text.size()));
}

std::string to_text(const Hash& hash) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : hash.bytes) {
    text += kDigits[std::to_integer<unsigned>(byte) >> 4];
    text += kDigits[std::to_integer<unsigned>(byte) & 15];
  }
  return text;
}

bool parse_hash(std::string_view text, Hash& hash) noexcept {
  if (text.size() != 2 * hash.bytes.size()) return false;
  for (std::size_t i = 0; i < hash.bytes.size(); ++i) {
    const int high = digit_of(text[2 * i]);
    const int low = digit_of(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    hash.bytes[i] = static_cast<std::byte>(high * 16 + low);
  }
  return true;
}

Hasher::Hasher() : state_(std::make_unique<State>()) {
  reset();
}
Hasher::~Hasher() = default;
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;

void Hasher::add(std::span<const std::byte> data) noexcept {
  if (!data.empty()) XXH3_128bits_update(&state_->xxh, data.data(), data.size());
}

Hash Hasher::value() const noexcept {
  return canonical(XXH3_128bits_digest(&state_->xxh));
}

void Hasher::reset() noexcept {
  XXH3_128bits_reset(&state_->xxh);
}

}  // namespace zero::checkpoint
