#pragma once

/// Whether a run is started again after a try, and with how many ranks. Pure functions.

#include <string>

#include "cli/attempt.h"
#include "cli/rank_environment.h"

namespace zero::cli {

/// How many ranks the next try has after one with `present`: the same without
/// `settings.min_ranks`, otherwise the largest smaller number that is at least that and divides
/// `settings.micro_batches` (without them: the starting number of ranks, since what that divides,
/// its divisors divide, too). The same where there is none.
int ranks_after(const RunSettings& settings, int present);

/// Why the run is not started again after a failed try, or "" if it is. `restarts_done`: before.
std::string reason_to_stop(const RunSettings& settings, const TryEnd& end, int restarts_done);

}  // namespace zero::cli
