#pragma once

/// Which checkpoint to resume from: rank 0 looks, every rank hears.

#include <string>
#include <vector>

#include "checkpoint/file_system.h"
#include "checkpoint/store.h"
#include "libzero/collective/collective.h"

namespace zero::checkpoint {

struct Candidates {
  /// Directories of checkpoints, best first. One only, unless there is something to fall back to.
  std::vector<std::string> directories;
  /// What was passed over and why: "step_000000000020: shard-00001-of-00002.h5 is missing".
  std::vector<std::string> warnings;
};

/// Collective. What `from` names: a checkpoint's directory (it holds MANIFEST.json), or a root,
/// whose newest checkpoint is meant. With `fall_back` the older ones of the root follow, newest
/// first, and damaged ones are passed over with a warning; without it a newest one that is damaged
/// makes every rank throw FormatError. LATEST is never trusted; that it is missing, or names what
/// is not there, is a warning. An empty or missing root gives no directory. But every rank throws
/// FormatError, with `fall_back` too, where there are checkpoints and none is whole, or where
/// `from` is what is left of one (training must not silently start anew), and IoError, with
/// `fall_back` too, if rank 0 cannot look: what cannot be read may be whole.
Candidates find_candidates(FileSystem& files, const std::string& from, bool fall_back,
                           Collective& comm);

}  // namespace zero::checkpoint
