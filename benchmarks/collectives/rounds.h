#pragma once

/// The contenders of a race take turns, round after round; a round's time is that of the slowest
/// rank.

#include <string>
#include <vector>

#include "contenders.h"

namespace zero::collectives_benchmark {

/// Seconds by contender and round, the same on every rank.
using Times = std::vector<std::vector<double>>;

/// `comm` lets the ranks begin together and tells them each other's times.
Times run_rounds(const Race& race, Collective& comm, int rounds);

double median(std::vector<double> values);
/// The median of the rounds' ratios.
double median_ratio(const std::vector<double>& ours, const std::vector<double>& theirs);

}  // namespace zero::collectives_benchmark
