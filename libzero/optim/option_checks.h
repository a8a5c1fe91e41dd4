#pragma once

/// What update rules ask of their options.

#include <cmath>

namespace zero {

inline bool is_finite_and_not_negative(double value) {
  return std::isfinite(value) && value >= 0;
}

/// Below 1 in float32 too, in which a step computes: a moment would never forget.
inline bool is_below_1(double value) {
  return value >= 0 && static_cast<float>(value) < 1.0f;
}

}  // namespace zero
