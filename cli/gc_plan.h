#pragma once

/// What `zero gc` would remove, and why.

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/directories.h"
#include "checkpoint/ranks/retention.h"
#include "checkpoint/store.h"

namespace zero::cli {

struct Doomed {
  std::string name;        ///< Of the directory.
  std::int64_t step = -1;  ///< -1: left over by a save or removal that did not end.
  std::uint64_t bytes = 0;
  std::string reason;  ///< "leftover", "old", "damaged".
  std::string why;     ///< For people.
};

struct GcRules {
  checkpoint::RetentionRule retention;
  bool damaged = false;  ///< Damaged checkpoints go, too.
};

struct GcPlan {
  std::vector<Doomed> doomed;                ///< Leftovers, old steps, damaged ones.
  std::vector<std::string> kept;             ///< Whole ones, newest last.
  std::vector<checkpoint::Damaged> damaged;  ///< Not among the doomed.
  std::string note;                          ///< What else to know of the root; may be empty.

  std::uint64_t bytes() const;  ///< Of the doomed.
};

/// Empty, or why nothing may be removed: a job that saves into this root lives. Throws IoError.
std::string problem_of_job(checkpoint::FileSystem& files, const std::string& root);

/// Looks, and changes nothing. The newest whole checkpoint is never among the doomed, nor what the
/// file system refused to show; directories of a save that is under way are not either, as far as
/// the root's lock can tell, unless the caller `has_lock`. Throws IoError.
GcPlan plan_gc(checkpoint::FileSystem& files, checkpoint::Store& store, const std::string& root,
               const GcRules& rules, bool has_lock);

}  // namespace zero::cli
