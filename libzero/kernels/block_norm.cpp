#include "libzero/kernels/block_norm.h"

#include <algorithm>
#include <bit>
#include <string>

#include "libzero/base/error.h"

// Compiles this file once for each instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "libzero/kernels/block_norm.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include "libzero/kernels/squares-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zero::HWY_NAMESPACE {
namespace {

double sum_of_squares(const float* data, std::size_t count) {
  const Wide d;
  SquareLanes squares;
  std::size_t i = 0;
  for (; i + kWidth <= count; i += kWidth) {
    for (std::size_t j = 0; j < kWidth; j += hn::Lanes(d)) {
      squares.add(j, hn::LoadU(d, data + i + j));
    }
  }
  return squares.finish(data + i, count - i);
}

}  // namespace
}  // namespace zero::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zero {
namespace {

HWY_EXPORT(sum_of_squares);

/// Exponent bits all ones: infinity or NaN. On the bits, so that no compiler flag can assume it
/// away.
std::uint32_t nonfinite(float value) noexcept {
  return (std::bit_cast<std::uint32_t>(value) & 0x7f800000u) == 0x7f800000u ? 1u : 0u;
}

}  // namespace

double block_sum_of_squares(const float* data, std::int64_t count) {
  ZERO_REQUIRE(count >= 0 && count <= kNormBlock,
               "A block of the norm holds 0 to 64 elements: " + std::to_string(count));
  return HWY_DYNAMIC_DISPATCH(sum_of_squares)(data, static_cast<std::size_t>(count));
}

std::int64_t first_nonfinite(const float* data, std::int64_t count) noexcept {
  constexpr std::int64_t kChunk = 1024;
  for (std::int64_t begin = 0; begin < count; begin += kChunk) {
    const std::int64_t end = std::min(count, begin + kChunk);
    // No early exit inside a chunk: this loop is vectorised.
    std::uint32_t any = 0;
    for (std::int64_t i = begin; i < end; ++i) any |= nonfinite(data[i]);
    if (any == 0) continue;
    return std::find_if(data + begin, data + end, [](float x) { return nonfinite(x) != 0; }) - data;
  }
  return -1;
}

}  // namespace zero
#endif  // HWY_ONCE
