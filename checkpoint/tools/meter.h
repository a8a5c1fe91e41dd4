#pragma once

/// Counts what is done of a task, tells its caller, and stops it when told to.

#include <cstdint>
#include <string>

#include "checkpoint/progress.h"

namespace zero::checkpoint {

class Meter {
 public:
  /// REQUIRES that `progress` outlives it. `task` ends the message of Cancelled.
  Meter(const Progress& progress, std::uint64_t total, const char* task)
      : progress_(progress), total_(total), task_(task) {}

  /// Throws Cancelled.
  void advance(std::uint64_t bytes) {
    done_ += bytes;
    if (progress_ && !progress_(done_, total_)) {
      throw Cancelled(std::string("told to stop, nothing was changed: ") + task_);
    }
  }

 private:
  const Progress& progress_;
  std::uint64_t done_ = 0;
  std::uint64_t total_;
  const char* task_;
};

}  // namespace zero::checkpoint
