#pragma once

/// What is compared with what.

#include <string>
#include <vector>

#include "benchmarks/common/rounds.h"
#include "model.h"

namespace zero::checkpoint::benchmark {

using zero::benchmark::Comparison;
using zero::benchmark::Contender;
using zero::benchmark::Result;

/// Runs all comparisons in `folder`, which must be empty and is empty afterwards. `place` becomes
/// part of the ids.
std::vector<Result> run_cases(Model& model, const std::string& folder, const std::string& place,
                              int rounds);

}  // namespace zero::checkpoint::benchmark
