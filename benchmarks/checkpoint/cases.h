#pragma once

/// What is compared with what.

#include <string>
#include <vector>

#include "model.h"
#include "rounds.h"

namespace zero::checkpoint::benchmark {

/// Runs all comparisons in `folder`, which must be empty and is empty afterwards. `place` becomes
/// part of the ids.
std::vector<Result> run_cases(Model& model, const std::string& folder, const std::string& place,
                              int rounds);

}  // namespace zero::checkpoint::benchmark
