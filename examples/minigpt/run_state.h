#pragma once

/// What a checkpoint holds of a run beside the optimizer.

#include <cstdint>
#include <set>
#include <string>

#include "examples/minigpt/flags.h"
#include "libzero/optim/resume.h"

namespace minigpt {

/// The position in the data, what it counts, and the flags that decide the run's course.
class RunState {
 public:
  /// `windows`: training samples of the data. `flags` must outlive this.
  RunState(const Flags& flags, std::int64_t windows) : flags_(flags), windows_(windows) {}

  /// Position in the sample order: what the next step begins with.
  std::int64_t samples_seen() const noexcept { return samples_seen_; }
  void count_step() { samples_seen_ += flags_.batch; }

  zero::TrainerState to_save() const;

  /// Counters that a checkpoint must have for go_on_from().
  static std::set<std::string> required();

  /// Throws ContractError, and changes nothing, where the position means other samples here.
  void go_on_from(const zero::TrainerState& saved);

  /// "--lr 0.001 (was 0.003)": flags that now decide another course. Empty: none.
  std::string changed_flags(const zero::TrainerState& saved) const;

 private:
  const Flags& flags_;
  std::int64_t windows_;
  std::string run_id_;  // empty: the first save gives it one
  std::int64_t samples_seen_ = 0;
};

}  // namespace minigpt
