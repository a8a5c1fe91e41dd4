#pragma once

/// One try of a run: from the start of its ranks to the end of the last.

#include <string>
#include <vector>

#include "cli/console.h"
#include "cli/keeper.h"
#include "cli/rank_environment.h"
#include "cli/signals.h"

namespace zero::cli {

/// What the tries of a run have in common. References must outlive it.
struct RunContext {
  const RunSettings& settings;
  Console& console;
  Signals& signals;
  Keeper& keeper;
  std::vector<pid_t> strangers;  ///< Children of this process that the run did not start.
};

/// How a try ended.
struct TryEnd {
  /// 0 if all ranks exited with 0; otherwise the first failing rank's exit code (128 + signal for a
  /// signal), kNotFound or kCannotExecute if the program cannot be started.
  int code = 0;
  std::string failure;        ///< "rank 2 was killed by SIGKILL"; empty if `code` is 0.
  bool asked_to_end = false;  ///< SIGINT, SIGTERM or SIGHUP came meanwhile.
};

/// Starts the ranks, carries their output and signals until all have ended, and takes all down when
/// one fails. Nothing that it started runs when it returns or throws. What the ranks wrote is in
/// the console by then, maybe not yet written. Throws IoError if the system has no process to give.
TryEnd attempt(RunContext& context, const TryIdentity& identity);

}  // namespace zero::cli
