#pragma once

/// Starts the ranks of one run, carries their output and signals, and takes all down when one
/// fails.

#include "cli/rank_environment.h"

namespace zero::cli {

/// Runs `settings.program` on `settings.ranks` ranks until all have ended, and returns the exit
/// code of `zero run`: 0 if all exited with 0, otherwise the first failing rank's (128 + signal for
/// a signal), kNotFound or kCannotExecute if the program cannot be started. Serves the key-value
/// store meanwhile. Throws IoError if the port is taken or the system has no process to give. Takes
/// over the process's signals; call it once, on the main thread.
int launch(const RunSettings& settings);

}  // namespace zero::cli
