#pragma once

/// What one rank did in some of its steps, as a file for chrome://tracing and ui.perfetto.dev.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "libzero/optim/observer.h"

namespace zero::observe {

struct TimelineOptions {
  std::int64_t skip = 2;    ///< Steps before the first that is recorded: they warm up.
  std::int64_t steps = 10;  ///< How many are recorded.
  /// Spans of each thread; the memory is taken at the start, some 64 bytes each. What does not fit
  /// is counted and left out.
  std::size_t room = std::size_t{1} << 16;
};

/// One thing that happened.
struct TimelineSpan {
  Span span;
  std::int64_t step = 0;      ///< Of this optimizer, from 1, skipped ones included.
  std::int32_t sequence = 0;  ///< Of a collective: its number in its lane and step, from 0.
  std::size_t facts = 0;      ///< Which call of begin() told of its bucket, from 1.
};

/// Records without taking memory or locks. Members but observe() are the training thread's, between
/// a step() and the next backward(), or after an error.
class Timeline : public Observer {
 public:
  /// Throws ContractError for negative numbers.
  explicit Timeline(const TimelineOptions& options);

  void begin(const OptimizerFacts& facts) override;
  void observe(const Span& span) noexcept override;
  void step_ended(const StepResult& result) noexcept override;

  /// All steps that were asked for are recorded.
  bool is_complete() const noexcept { return window_ > options_.skip + options_.steps; }

  /// The latest.
  const OptimizerFacts& facts() const noexcept { return facts_.back(); }
  /// In order of ends.
  std::vector<TimelineSpan> spans(Lane lane) const;
  /// Spans that there was no room for.
  std::int64_t dropped() const noexcept;

  /// Writes what was recorded so far, replacing a file of that name (docs/observability.md has the
  /// format). Throws IoError.
  void write(const std::string& path) const;

 private:
  struct Record {
    std::vector<TimelineSpan> spans;
    std::atomic<std::size_t> count{0};
    std::atomic<std::int64_t> dropped{0};
    std::int32_t collectives = 0;  // in this step
  };
  const Record& of(Lane lane) const { return records_[static_cast<std::size_t>(lane)]; }

  const TimelineOptions options_;
  std::vector<OptimizerFacts> facts_{
      1};  // nobody's, then of each begin(): rebuild() makes new ones
  std::int64_t window_ = 1;
  std::atomic<bool> recording_;
  Record records_[2];
};

/// "FOLDER/trace-rank-0003.json"
std::string timeline_path(const std::string& folder, int rank);

}  // namespace zero::observe
