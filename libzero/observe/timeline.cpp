#include "libzero/observe/timeline.h"

#include <cstdio>

#include "libzero/base/error.h"

namespace zero::observe {

Timeline::Timeline(const TimelineOptions& options)
    : options_(options), recording_(options.skip == 0 && options.steps > 0) {
  ZERO_REQUIRE(options.skip >= 0 && options.steps >= 0,
               "timeline: skip and steps must not be negative: " + std::to_string(options.skip) +
                   " and " + std::to_string(options.steps));
  for (Record& record : records_) record.spans.resize(options.room);
}

void Timeline::begin(const OptimizerFacts& facts) {
  facts_.push_back(facts);
}

void Timeline::observe(const Span& span) noexcept {
  if (!recording_.load(std::memory_order_relaxed)) return;
  Record& record = records_[static_cast<std::size_t>(span.lane)];
  const std::int32_t sequence = is_collective(span.activity) ? record.collectives++ : 0;
  const std::size_t at = record.count.load(std::memory_order_relaxed);
  if (at == record.spans.size()) {
    record.dropped.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  record.spans[at] = {span, window_, sequence, facts_.size() - 1};
  record.count.store(at + 1, std::memory_order_release);
}

// The communication thread rests, and hears of it from the queue's lock before it goes on.
void Timeline::step_ended(const StepResult&) noexcept {
  ++window_;
  for (Record& record : records_) record.collectives = 0;
  recording_.store(window_ > options_.skip && !is_complete(), std::memory_order_relaxed);
}

std::vector<TimelineSpan> Timeline::spans(Lane lane) const {
  const Record& record = of(lane);
  const auto count = static_cast<std::ptrdiff_t>(record.count.load(std::memory_order_acquire));
  return {record.spans.begin(), record.spans.begin() + count};
}

std::int64_t Timeline::dropped() const noexcept {
  return of(Lane::kTraining).dropped.load() + of(Lane::kCommunication).dropped.load();
}

std::string timeline_path(const std::string& folder, int rank) {
  char name[40];
  std::snprintf(name, sizeof name, "/trace-rank-%04d.json", rank);
  return folder + name;
}

}  // namespace zero::observe
