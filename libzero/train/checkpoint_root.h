#pragma once

/// The root of a job's checkpoints as rank 0 keeps it: one job at a time, room for the next step,
/// old ones out. No collectives.

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/file_system.h"
#include "checkpoint/ranks/retention.h"
#include "checkpoint/store.h"

namespace zero {

class CheckpointRoot {
 public:
  /// Looks whether checkpoints can be saved there at all, so that no step is lost before that is
  /// found out, and, with `lock`, keeps other jobs out as long as this lives; a root that is
  /// missing is locked by make_way(). Throws ContractError if another job is there, IoError.
  CheckpointRoot(std::shared_ptr<checkpoint::FileSystem> files, std::string root, bool lock);

  /// The run goes on from `step`; `damaged` look whole in the listing, and reading them showed that
  /// they are not.
  void resumed(std::int64_t step, const std::vector<std::int64_t>& damaged);

  /// Makes the root, and removes a damaged checkpoint of this step, also one that resumed() told
  /// of; returns what a person should know. Throws ContractError if the step has a whole checkpoint
  /// or another job is there, IoError, also where the disk does not tell whether it is damaged.
  std::vector<std::string> make_way(checkpoint::Store& store, std::int64_t step);

  /// To be called when `saved` was committed, after make_way() for it. Removes what the rule does
  /// not keep. `saved` stays, and so does what was resumed from until there is a newer one. Steps
  /// that were newer than one when it was saved, and those that resumed() called damaged, are not
  /// of this run's past: they neither count nor go. Never throws for what stays.
  checkpoint::Removal tidy(checkpoint::Store& store, checkpoint::RetentionRule rule,
                           std::int64_t saved);

 private:
  void keep_others_out();
  std::string clear(checkpoint::Store& store, std::int64_t step, const std::string& problem);

  std::shared_ptr<checkpoint::FileSystem> files_;
  std::string root_;
  bool wants_lock_;
  std::unique_ptr<checkpoint::FileLock> lock_;
  std::set<std::int64_t> damaged_;    // by resumed()
  std::set<std::int64_t> set_aside_;  // those and the newer ones
  std::optional<std::int64_t> resumed_from_;
};

}  // namespace zero
