#include "libzero/base/checksum.h"

#include <array>
#include <cstring>

namespace zero {
namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);

/// Lanes that do not wait for one another: a multiplication takes several cycles, but one can begin
/// in each.
constexpr std::size_t kLanes = 8;

/// Different words give different results, and so do different hashes. The bits that
/// multiplication carries upwards are brought down again.
constexpr std::uint64_t absorb(std::uint64_t hash, std::uint64_t word) noexcept {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
  return hash ^ (hash >> 32);
}

std::uint64_t word_at(const std::byte* data, std::size_t size = kWord) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, data, size);
  return word;
}

}  // namespace

std::uint64_t checksum(std::span<const std::byte> data) noexcept {
  std::array<std::uint64_t, kLanes> lanes;
  for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] = lane + 1;
  const std::byte* at = data.data();
  std::size_t left = data.size();
  for (; left >= kLanes * kWord; left -= kLanes * kWord, at += kLanes * kWord) {
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] = absorb(lanes[lane], word_at(at + lane * kWord));
  }
  std::uint64_t hash = absorb(0, data.size());  // what is filled up with zeros must not be equal
  for (const std::uint64_t lane : lanes) hash = absorb(hash, lane);
  for (; left >= kWord; left -= kWord, at += kWord) hash = absorb(hash, word_at(at));
  if (left > 0) hash = absorb(hash, word_at(at, left));
  return hash;
}

}  // namespace zero
