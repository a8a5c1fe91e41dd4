#include "libzero/optim/block_norm.h"

#include <algorithm>
#include <bit>
#include <string>

#include "libzero/base/error.h"

namespace zero {
namespace {

constexpr std::int64_t kLanes = 16;

/// Exponent bits all ones: infinity or NaN. On the bits, so that no compiler flag can assume it
/// away.
std::uint32_t nonfinite(float value) noexcept {
  return (std::bit_cast<std::uint32_t>(value) & 0x7f800000u) == 0x7f800000u ? 1u : 0u;
}

}  // namespace

double block_sum_of_squares(const float* data, std::int64_t count) {
  ZERO_REQUIRE(count >= 0 && count <= kNormBlock,
               "A block of the norm holds 0 to 4096 elements: " + std::to_string(count));
  // The square of a float is exact in a double, so a compiler may fuse multiply and add or not.
  double lanes[kLanes] = {};
  const std::int64_t whole = count / kLanes * kLanes;
  for (std::int64_t i = 0; i < whole; i += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      const auto value = static_cast<double>(data[i + lane]);
      lanes[lane] += value * value;
    }
  }
  for (std::int64_t i = whole; i < count; ++i) {
    const auto value = static_cast<double>(data[i]);
    lanes[i - whole] += value * value;
  }
  for (std::int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::int64_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
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
