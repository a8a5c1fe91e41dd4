#pragma once

/// A schedule at work on an optimizer's parameter groups.

#include <torch/optim/optimizer.h>

#include <cstdint>
#include <vector>

#include "libzero/optim/resume.h"
#include "libzero/train/schedule.h"

namespace zero {

/// Sets the learning rates of a torch::optim optimizer's groups, zero::Optimizer's too.
///
///   zero::LearningRate rate(optimizer, zero::Schedule::cosine(9000, 0.1).warmup(1000));
///   ...
///   if (optimizer.step().applied) rate.step();
///
/// What a checkpoint keeps of groups is the rate of one update, not its peak: so save() and load()
/// keep both, in counters "schedule.applied" and "schedule.peak.<group>" (a float64's bits). Not
/// thread-safe.
class LearningRate {
 public:
  /// The present rate of each group is its peak. Sets the first update's rates. `optimizer` must
  /// outlive this.
  LearningRate(torch::optim::Optimizer& optimizer, const Schedule& schedule);

  /// A schedule for each group. Throws ContractError for another number of them than groups.
  LearningRate(torch::optim::Optimizer& optimizer, std::vector<Schedule> schedules);

  /// An update was applied: sets the next one's rates. Throws as go_to() does.
  void step();

  /// `updates` were applied in all: sets the next one's rates. For loops that ask the optimizer:
  /// rate.go_to(optimizer.steps_applied()). Throws ContractError below 0, or if the optimizer has
  /// another number of groups than at construction.
  void go_to(std::int64_t updates);

  /// Updates applied so far.
  std::int64_t applied() const noexcept { return applied_; }
  /// Of the next update, by group.
  std::vector<double> rates() const;

  /// Adds to what a checkpoint keeps.
  void save(TrainerState& trainer) const;

  /// Goes on as saved; to be called after the optimizer was loaded. Throws ContractError if
  /// counters are missing or no rates, or if there are other groups; then nothing was changed.
  void load(const TrainerState& trainer);

 private:
  torch::optim::Optimizer& optimizer_;
  std::vector<Schedule> schedules_;
  std::vector<double> peaks_;
  std::int64_t applied_ = 0;
};

}  // namespace zero
