#pragma once

/// Which rank the others wait for.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libzero/optim/observer.h"

namespace zero::observe {

struct LateRankOptions {
  std::int64_t every = 100;  ///< Steps that an answer is taken over.
  double share = 0.1;  ///< Of the mean step that somebody must wait for it to be worth a word.
};

struct Lateness {
  int late_rank = 0;
  int waiting_rank = 0;  ///< The one that waited longest.
  double waited = 0;     ///< Seconds a step, on average: that rank's, beyond what the late one
                         ///< spent in collectives itself.
  double step = 0;       ///< Mean seconds of a step.
  std::int64_t steps = 0;
};

/// "rank 3 waited for 41.0 ms a step on average over 100 steps of 210.0 ms, rank 1 is late"
std::string text_of(const Lateness& lateness);

/// Compares the times that ranks spend in collectives, which travel with the vote: the rank that
/// comes last to each spends least. One that is late now and another then are not told apart. The
/// sums are the same on every rank; `step`, and with it whether a wait is worth a word, is each
/// rank's own. For the training thread.
class LateRank : public Observer {
 public:
  /// Throws ContractError unless every >= 1.
  explicit LateRank(const LateRankOptions& options = {});

  void begin(const OptimizerFacts& facts) override;
  void observe(const Span&) noexcept override {}
  void collective_times(std::span<const Nanoseconds> by_rank) noexcept override;
  void step_ended(const StepResult& result) noexcept override;

  /// To be called after each step(): an answer after every `every` steps, if there is one.
  std::optional<Lateness> take();

 private:
  const LateRankOptions options_;
  std::vector<Nanoseconds> sums_;  // by rank
  std::int64_t steps_ = 0;
  Nanoseconds begin_ = 0;
  Nanoseconds end_ = 0;
};

}  // namespace zero::observe
