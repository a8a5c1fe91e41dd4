#pragma once

#include <cstdint>

namespace zero {

/// All that a loss scaler needs to go on where it was. Here, below both, because optimizers have
/// one and checkpoints keep it.
struct LossScalerState {
  double scale = 1;
  std::int64_t growth_tracker = 0;  ///< Clean steps since the last overflow or growth.
  std::int32_t hysteresis_left =
      0;  ///< Overflows that the scale still bears, the fatal one included.
  std::int64_t consecutive_skips = 0;  ///< Overflows since the last clean step.
  friend bool operator==(const LossScalerState&, const LossScalerState&) = default;
};

}  // namespace zero
