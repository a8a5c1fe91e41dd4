#include "libzero/observe/late_rank.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "libzero/base/error.h"

namespace zero::observe {

std::string text_of(const Lateness& lateness) {
  char text[160];
  std::snprintf(text, sizeof text,
                "rank %d waited for %.1f ms a step on average over %lld steps of %.1f ms, rank %d "
                "is late",
                lateness.waiting_rank, 1e3 * lateness.waited,
                static_cast<long long>(lateness.steps), 1e3 * lateness.step, lateness.late_rank);
  return text;
}

LateRank::LateRank(const LateRankOptions& options) : options_(options) {
  ZERO_REQUIRE(options.every >= 1,
               "late rank: every must be at least 1: " + std::to_string(options.every));
}

void LateRank::begin(const OptimizerFacts& facts) {
  sums_.assign(static_cast<std::size_t>(facts.world_size), 0);
  steps_ = 0;
  begin_ = end_ = steady_now();
}

void LateRank::collective_times(std::span<const Nanoseconds> by_rank) noexcept {
  for (std::size_t rank = 0; rank < sums_.size(); ++rank) sums_[rank] += by_rank[rank];
}

void LateRank::step_ended(const StepResult&) noexcept {
  ++steps_;
  end_ = steady_now();
}

std::optional<Lateness> LateRank::take() {
  if (steps_ < options_.every) return std::nullopt;
  const auto [least, most] = std::minmax_element(sums_.begin(), sums_.end());
  Lateness lateness;
  lateness.steps = std::exchange(steps_, 0);
  const double scale = 1e-9 / static_cast<double>(lateness.steps);
  lateness.late_rank = static_cast<int>(least - sums_.begin());
  lateness.waiting_rank = static_cast<int>(most - sums_.begin());
  lateness.waited = scale * static_cast<double>(*most - *least);
  lateness.step = scale * static_cast<double>(end_ - std::exchange(begin_, end_));
  std::fill(sums_.begin(), sums_.end(), 0);
  if (lateness.late_rank == lateness.waiting_rank) return std::nullopt;
  if (lateness.waited < options_.share * lateness.step) return std::nullopt;
  return lateness;
}

}  // namespace zero::observe
