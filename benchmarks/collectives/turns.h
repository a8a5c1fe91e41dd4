#pragma once

/// The contenders of a race take turns, round after round; a round's time is that of the slowest
/// rank.

#include <string>
#include <vector>

#include "benchmarks/collectives/contenders.h"

namespace zero::benchmark::collectives {

/// Seconds by contender and round, the same on every rank.
using Times = std::vector<std::vector<double>>;

/// `comm` lets the ranks begin together and tells them each other's times.
Times run_rounds(const Race& race, Collective& comm, int rounds);

/// The median of the rounds' ratios.
double median_ratio(const std::vector<double>& ours, const std::vector<double>& theirs);

}  // namespace zero::benchmark::collectives
