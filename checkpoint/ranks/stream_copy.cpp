#include "checkpoint/ranks/stream_copy.h"

#include <cstdint>
#include <cstring>
#include <iterator>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace zero::checkpoint {
namespace {

void copy(std::byte* dst, const std::byte* src, std::size_t count) noexcept {
  if (count > 0) std::memcpy(dst, src, count);
}

#ifdef __SSE2__

constexpr std::size_t kLine = 64;
/// Smaller copies are not worth it.
constexpr std::size_t kStreamFrom = std::size_t{32} << 10;

/// dst is aligned to a line, count a multiple of it.
void stream_lines(std::byte* dst, const std::byte* src, std::size_t count) noexcept {
  constexpr std::size_t kWord = sizeof(__m128i);
  for (std::size_t at = 0; at < count; at += kLine) {
    __m128i words[kLine / kWord];
    for (std::size_t i = 0; i < std::size(words); ++i) {
      words[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(src + at + i * kWord));
    }
    for (std::size_t i = 0; i < std::size(words); ++i) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(dst + at + i * kWord), words[i]);
    }
  }
  _mm_sfence();  // Locks do not order streaming stores.
}

#endif

}  // namespace

void stream_copy(std::span<std::byte> dst, std::span<const std::byte> src) noexcept {
  std::byte* to = dst.data();
  const std::byte* from = src.data();
  std::size_t left = src.size();
#ifdef __SSE2__
  if (left >= kStreamFrom) {
    const std::size_t head = (kLine - reinterpret_cast<std::uintptr_t>(to) % kLine) % kLine;
    const std::size_t lines = (left - head) / kLine * kLine;
    copy(to, from, head);
    stream_lines(to + head, from + head, lines);
    to += head + lines;
    from += head + lines;
    left -= head + lines;
  }
#endif
  copy(to, from, left);
}

}  // namespace zero::checkpoint
