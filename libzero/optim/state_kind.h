#pragma once

#include <cstddef>
#include <cstdint>

namespace zero {

/// What an optimizer holds for each trainable element, in fp32. Which of them it keeps, its update
/// rule says (docs/new_update_rule.md).
enum class StateKind : std::uint8_t {
  kMaster,
  kExpAvg,    ///< AdamW's.
  kExpAvgSq,  ///< AdamW's.
  kGradient,  ///< Mean of the gradient of the last window (or, before step(), of the calls so far),
              ///< before clipping.
  kMomentumBuffer,  ///< SGD's, where a group has momentum.
  kEma,             ///< Average of the masters, of any rule: Options::ema.
};

/// As checkpoints and errors name it: "master", "exp_avg", ...; "unknown" for a value outside the
/// enumeration. The text is static.
constexpr const char* name_of(StateKind kind) noexcept {
  switch (kind) {
    case StateKind::kMaster:
      return "master";
    case StateKind::kExpAvg:
      return "exp_avg";
    case StateKind::kExpAvgSq:
      return "exp_avg_sq";
    case StateKind::kGradient:
      return "gradient";
    case StateKind::kMomentumBuffer:
      return "momentum_buffer";
    case StateKind::kEma:
      return "ema";
  }
  return "unknown";
}

}  // namespace zero
