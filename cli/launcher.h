#pragma once

/// A whole run: one try, and others after deaths.

#include "cli/rank_environment.h"

namespace zero::cli {

/// Runs `settings.program` until a try (attempt.h) ends well, must not be repeated, or
/// `settings.restarts` are used up (restart_policy.h), and returns the exit code of `zero run`: the
/// last try's, or kInputOutput if all went well but output was lost. Each try has a key-value store
/// of its own, served meanwhile, and new ports and a new secret; `settings.port` stays. Throws
/// IoError if the port is taken or the system has no process to give. Takes over the process's
/// signals; call it once, on the main thread.
int launch(const RunSettings& settings);

}  // namespace zero::cli
