#pragma once

#include <cstdint>

namespace zero {

/// The steps of the SplitMix64 generator (Steele, Lea, Flood, OOPSLA 2014).
inline constexpr std::uint64_t kGoldenGamma = 0x9e3779b97f4a7c15u;

/// Its output function: a permutation of the 64-bit numbers in which every bit of the argument
/// reaches every bit of the result.
constexpr std::uint64_t mix64(std::uint64_t z) noexcept {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace zero
