#include "checkpoint/hash.h"

#include "checkpoint/hash_kernels.h"

namespace zero::checkpoint {
namespace {

const HashKernels& kernels() noexcept {
  static const HashKernels& best = best_hash_kernels();
  return best;
}

int digit_of(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

struct Hasher::State {
  alignas(kHashStateAlignment) std::byte bytes[kHashStateBytes];
};

Hash hash_of(std::span<const std::byte> data) noexcept {
  Hash hash;
  kernels().hash(data.data(), data.size(), hash.bytes.data());
  return hash;
}

Hash hash_of(std::string_view text) noexcept {
  return hash_of(std::as_bytes(std::span(text)));
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
  if (!data.empty()) kernels().update(state_->bytes, data.data(), data.size());
}

Hash Hasher::value() const noexcept {
  Hash hash;
  kernels().value(state_->bytes, hash.bytes.data());
  return hash;
}

void Hasher::reset() noexcept {
  kernels().reset(state_->bytes);
}

}  // namespace zero::checkpoint
