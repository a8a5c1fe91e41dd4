#pragma once

/// Conversions between fp32 and the two 16-bit formats: the same bits on every compiler and
/// instruction set. fp32 and fp16 are binary32 and binary16 of IEEE 754-2008 (3.6), bf16 is the
/// upper half of a binary32. Rounding is to nearest, ties to even (4.3.1), and needs the default
/// rounding mode; NaN stays NaN; overflow gives infinity.

#include <bit>
#include <cstdint>

namespace zero {

/// Exact: the bits with 16 zeros behind them. A NaN keeps its bits, a signalling one too.
constexpr float float_from_bfloat16(std::uint16_t bits) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// The bits of the nearest bf16, whose subnormals are not flushed. Every NaN becomes 0x7fc0.
constexpr std::uint16_t bfloat16_from_float(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return static_cast<std::uint16_t>(is_nan ? 0x7fc0u : rounded);
}

// The fp16 conversions calculate all cases and select one, without branches, so that loops over
// them are vectorised.

/// Exact, subnormals included. A NaN keeps sign and payload and becomes quiet.
constexpr float float_from_float16(std::uint16_t half) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
  const std::uint32_t magnitude = half & 0x7fffu;
  const std::uint32_t normal = (magnitude << 13) + 0x38000000u;
  const std::uint32_t quiet = magnitude > 0x7c00u ? 0x00400000u : 0u;
  const std::uint32_t special = (normal + 0x38000000u) | quiet;  // Infinity or NaN, payload kept.
  // Zero and subnormals: magnitude * 2^-24 is exact in fp32.
  const float small = static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24f;
  std::uint32_t bits = magnitude < 0x0400u ? std::bit_cast<std::uint32_t>(small) : normal;
  bits = magnitude >= 0x7c00u ? special : bits;
  return std::bit_cast<float>(sign | bits);
}

/// The bits of the nearest fp16, subnormals included; magnitudes from 65520 on become infinity.
/// Every NaN becomes 0x7e00 with its own sign.
constexpr std::uint16_t float16_from_float(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  const std::uint32_t normal = (magnitude - 0x38000000u + 0x0fffu + ((magnitude >> 13) & 1u)) >> 13;
  // Adding 0.5 puts the rounding position of a subnormal at the last bit of the fp32 mantissa.
  const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u;
  std::uint32_t half = magnitude < 0x38800000u ? subnormal : normal;
  half = magnitude >= 0x477ff000u ? 0x7c00u : half;  // Rounds beyond 65504: infinity.
  half = magnitude > 0x7f800000u ? 0x7e00u : half;   // NaN.
  return static_cast<std::uint16_t>(sign | half);
}

}  // namespace zero
