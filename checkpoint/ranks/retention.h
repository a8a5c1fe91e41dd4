#pragma once

/// Which checkpoints of a root to remove.

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/store.h"

namespace zero::checkpoint {

struct RetentionRule {
  /// Keep so many of the newest whole checkpoints; at least 1. 0: keep all.
  std::int64_t keep = 3;
  /// Keep every checkpoint whose step is a multiple; 0: none for that reason.
  std::int64_t keep_every = 0;
  /// Count and remove those of this run only; empty: of whatever run.
  std::string run_id = {};
  /// Never removed, wherever they stand: what a run was resumed from, for instance.
  std::vector<std::int64_t> pinned = {};
  /// Neither counted nor removed: of another past than the run's own (left behind by going back to
  /// an older one), or known to be damaged though manifest and sizes tell nothing of it.
  std::vector<std::int64_t> set_aside = {};
};

/// Steps to remove, oldest first. The newest whole checkpoint that counts is never among
/// them; damaged ones are
/// not either: they may be evidence, and whoever looks decides.
std::vector<std::int64_t> steps_to_remove(const Listing& listing, const RetentionRule& rule);

struct Removal {
  std::vector<std::int64_t> removed;  ///< Steps that are gone, oldest first.
  std::vector<std::string> problems;  ///< What could not be removed, and why.
};

/// Removes them. Never throws for what cannot be listed or removed.
Removal apply_retention(Store& store, const RetentionRule& rule);

}  // namespace zero::checkpoint
