#pragma once

/// How a double is cut into the digits of an exact sum (libzero/optim/exact_sum.h), for hosts and
/// GPUs.

#include <bit>
#include <cstdint>

#include "libzero/kernels/host_device.h"

namespace zero {

inline constexpr int kExactWords = 20;
inline constexpr int kExactDigitBits = 32;
inline constexpr int kExactLowestExponent = -320;

/// digit[k], below 2^32, belongs to word `word` + k; where it is 0, there may be no such word.
struct ExactDigits {
  int word = 0;
  std::uint64_t digit[3] = {0, 0, 0};
};

/// `value`: 0, or a multiple of 2^-320 below 2^288.
ZERO_HOST_DEVICE inline ExactDigits exact_digits(double value) {
  ExactDigits result;
  if (value == 0) return result;
  const auto bits = std::bit_cast<std::uint64_t>(value);
  constexpr std::uint64_t kLeadingBit = std::uint64_t{1} << 52;
  std::uint64_t mantissa = (bits & (kLeadingBit - 1)) | kLeadingBit;
  int position = static_cast<int>((bits >> 52) & 0x7ff) - 1075 - kExactLowestExponent;
  if (position < 0) {
    mantissa >>= -position;  // only zeros go
    position = 0;
  }
  const int shift = position % kExactDigitBits;
  result.word = position / kExactDigitBits;
  const std::uint64_t low = mantissa << shift;
  result.digit[0] = low & 0xffffffffu;
  result.digit[1] = low >> kExactDigitBits;
  result.digit[2] = shift == 0 ? 0 : mantissa >> (64 - shift);
  return result;
}

}  // namespace zero
