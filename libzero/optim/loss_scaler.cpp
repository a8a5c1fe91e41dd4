#include "libzero/optim/loss_scaler.h"

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>

#include "libzero/base/error.h"
#include "libzero/base/number_text.h"

namespace zero {
namespace {

constexpr double kLargest = std::numeric_limits<float>::max();

/// NaN fails every comparison, so it is refused everywhere.
bool is_positive_float(double value) {
  return value > 0 && value <= kLargest && static_cast<double>(static_cast<float>(value)) == value;
}

void require(bool condition, std::string_view rule, std::string_view name, double value) {
  ZERO_REQUIRE(condition, "The loss scaler's " + std::string(name) + " must be " +
                              std::string(rule) + ": " + number_text(value));
}

void require_positive_float(double value, std::string_view name) {
  require(is_positive_float(value), "a positive float32 value, best a power of two", name, value);
}

void require_at_least(std::int64_t value, std::int64_t least, std::string_view name) {
  ZERO_REQUIRE(value >= least, "The loss scaler's " + std::string(name) + " must be at least " +
                                   std::to_string(least) + ": " + std::to_string(value));
}

void validate(const LossScalerOptions& options) {
  require_positive_float(options.min_scale, "min_scale");
  require_positive_float(options.initial_scale, "initial_scale");
  require(options.initial_scale >= options.min_scale, "at least min_scale", "initial_scale",
          options.initial_scale);
  require(options.growth_factor >= 1 && options.growth_factor <= kLargest, "finite and at least 1",
          "growth_factor", options.growth_factor);
  require(options.backoff_factor > 0 && options.backoff_factor <= 1, "above 0 and at most 1",
          "backoff_factor", options.backoff_factor);
  require_at_least(options.growth_interval, 1, "growth_interval");
  require_at_least(options.hysteresis, 1, "hysteresis");
  require_at_least(options.max_consecutive_skips, 0, "max_consecutive_skips");
}

}  // namespace

LossScaler::LossScaler(const LossScalerOptions& options) : options_(options) {
  validate(options_);
  state_.scale = options_.initial_scale;
  state_.hysteresis_left = options_.hysteresis;
}

LossScaler LossScaler::disabled(std::int64_t max_consecutive_skips) {
  LossScaler scaler({.initial_scale = 1, .max_consecutive_skips = max_consecutive_skips});
  scaler.enabled_ = false;
  scaler.state_ = {};
  return scaler;
}

void LossScaler::update(bool overflow) {
  state_.consecutive_skips = overflow ? state_.consecutive_skips + 1 : 0;
  if (!enabled_) return;
  if (overflow) {
    state_.growth_tracker = 0;
    state_.hysteresis_left = std::max(0, state_.hysteresis_left - 1);
    if (state_.hysteresis_left == 0) back_off();
    return;
  }
  if (++state_.growth_tracker < options_.growth_interval) return;
  state_.growth_tracker = 0;
  state_.hysteresis_left = options_.hysteresis;
  grow();
}

void LossScaler::grow() noexcept {
  const double next = state_.scale * options_.growth_factor;
  if (next <= kLargest) state_.scale = static_cast<float>(next);
}

void LossScaler::back_off() noexcept {
  const auto next = static_cast<double>(static_cast<float>(state_.scale * options_.backoff_factor));
  state_.scale = std::max(next, options_.min_scale);
}

bool LossScaler::exhausted() const noexcept {
  return options_.max_consecutive_skips > 0 &&
         state_.consecutive_skips >= options_.max_consecutive_skips;
}

void LossScaler::set_state(const LossScalerState& state) {
  require_at_least(state.growth_tracker, 0, "saved growth_tracker");
  require_at_least(state.hysteresis_left, 0, "saved hysteresis_left");
  require_at_least(state.consecutive_skips, 0, "saved consecutive_skips");
  if (!enabled_) {
    require(state.scale == 1, "1 where no scaling is in use; it was saved by fp16 training",
            "saved scale", state.scale);
    state_ = {.consecutive_skips = state.consecutive_skips};
    return;
  }
  require_positive_float(state.scale, "saved scale");
  require(state.scale >= options_.min_scale, "at least min_scale; lower min_scale to resume",
          "saved scale", state.scale);
  state_ = state;
  state_.hysteresis_left = std::min(state_.hysteresis_left, options_.hysteresis);
}

}  // namespace zero
