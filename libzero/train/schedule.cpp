#include "libzero/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <utility>

#include "libzero/base/error.h"
#include "libzero/base/number_text.h"

namespace zero {
namespace {

void require_updates(std::int64_t updates, std::int64_t least, const char* name) {
  ZERO_REQUIRE(updates >= least, std::string("Schedule: ") + name + " must be at least " +
                                     std::to_string(least) + ": " + std::to_string(updates));
}

void require_factor(double factor, const char* name) {
  ZERO_REQUIRE(std::isfinite(factor) && factor >= 0,
               std::string("Schedule: ") + name +
                   " must be finite and not negative: " + number_text(factor));
}

/// 0 to 1, which it keeps.
double done(std::int64_t update, std::int64_t updates) {
  return static_cast<double>(std::min(update, updates)) / static_cast<double>(updates);
}

/// From 1 at 0 to 0 at 1.
double half_cosine(double x) {
  return 0.5 * (1 + std::cos(std::numbers::pi * x));
}

double down_to(double end, double remaining) {
  return end + (1 - end) * remaining;
}

double remaining_of(Schedule::Decay shape, double x) {
  switch (shape) {
    case Schedule::Decay::kCosine:
      return half_cosine(x);
    case Schedule::Decay::kOneMinusSqrt:
      return 1 - std::sqrt(x);
    case Schedule::Decay::kLinear:
      break;
  }
  return 1 - x;
}

}  // namespace

Schedule::Schedule(Rule rule) : rule_(std::move(rule)) {}

Schedule Schedule::constant() {
  return Schedule([](std::int64_t) { return 1.0; });
}

Schedule Schedule::linear(std::int64_t updates, double end) {
  return stable_decay(0, updates, end, Decay::kLinear);
}

Schedule Schedule::cosine(std::int64_t updates, double end) {
  return stable_decay(0, updates, end, Decay::kCosine);
}

Schedule Schedule::polynomial(std::int64_t updates, double power, double end) {
  require_updates(updates, 1, "updates");
  ZERO_REQUIRE(std::isfinite(power) && power > 0,
               "Schedule: power must be finite and above 0: " + number_text(power));
  require_factor(end, "end");
  return Schedule([=](std::int64_t update) {
    return down_to(end, std::pow(1 - done(update, updates), power));
  });
}

Schedule Schedule::inverse_sqrt(std::int64_t scale) {
  require_updates(scale, 1, "scale");
  return Schedule([=](std::int64_t update) {
    const auto s = static_cast<double>(scale);
    return std::sqrt(s / (s + static_cast<double>(update)));
  });
}

Schedule Schedule::one_cycle(std::int64_t updates, const OneCycle& shape) {
  require_updates(updates, 2, "updates");
  ZERO_REQUIRE(shape.rise > 0 && shape.rise < 1,
               "Schedule: rise must lie between 0 and 1: " + number_text(shape.rise));
  require_factor(shape.start, "start");
  const auto nearest =
      static_cast<std::int64_t>(std::llround(shape.rise * static_cast<double>(updates)));
  const std::int64_t top = std::clamp<std::int64_t>(nearest, 1, updates - 1);
  const double start = shape.start;
  const Schedule up(
      [=](std::int64_t update) { return down_to(start, 1 - half_cosine(done(update, top))); });
  return up.then(top, cosine(updates - top, shape.end));
}

Schedule Schedule::stable_decay(std::int64_t stable, std::int64_t decay, double end, Decay shape) {
  require_updates(stable, 0, "stable");
  require_updates(decay, 1, stable == 0 ? "updates" : "decay");
  require_factor(end, "end");
  return Schedule([=](std::int64_t update) {
    if (update <= stable) return 1.0;
    return down_to(end, remaining_of(shape, done(update - stable, decay)));
  });
}

Schedule Schedule::warmup(std::int64_t updates, double start) const {
  require_updates(updates, 0, "updates of warm-up");
  require_factor(start, "start");
  const Schedule up([=](std::int64_t update) { return down_to(start, done(update, updates)); });
  return up.then(updates, *this);
}

Schedule Schedule::then(std::int64_t updates, const Schedule& next) const {
  require_updates(updates, 0, "updates before the next schedule");
  return Schedule([updates, first = rule_, second = next.rule_](std::int64_t update) {
    return update <= updates ? first(update) : second(update - updates);
  });
}

Schedule Schedule::times(double factor) const {
  require_factor(factor, "factor");
  return Schedule([factor, rule = rule_](std::int64_t update) { return factor * rule(update); });
}

double Schedule::factor(std::int64_t update) const {
  require_updates(update, 1, "update");
  return rule_(update);
}

}  // namespace zero
