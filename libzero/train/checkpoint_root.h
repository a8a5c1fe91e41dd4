#pragma once

/// The root of a job's checkpoints as rank 0 keeps it: one job at a time, room for the next step,
/// old ones out. No collectives.

#include <cstdint>
#include <memory>
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

  /// Makes the root, and removes a damaged directory of this step; returns what a person should
  /// know. Throws ContractError if the step has a whole checkpoint or another job is there,
  /// IoError.
  std::vector<std::string> make_way(checkpoint::Store& store, std::int64_t step);

  struct Removal {
    std::vector<std::int64_t> steps;
    std::vector<std::string> warnings;
  };
  /// Removes what the rule does not keep. Never throws for what stays.
  static Removal tidy(checkpoint::Store& store, const checkpoint::RetentionRule& rule);

 private:
  void keep_others_out();

  std::shared_ptr<checkpoint::FileSystem> files_;
  std::string root_;
  bool wants_lock_;
  std::unique_ptr<checkpoint::FileLock> lock_;
};

}  // namespace zero
