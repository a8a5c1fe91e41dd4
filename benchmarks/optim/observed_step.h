#pragma once

#include "benchmarks/common/rounds.h"

namespace zero::benchmark {

/// Windows of some 10 ms of one rank that a timeline, a meter and a watch over late ranks observe,
/// against windows of one that nobody observes.
Comparison observed_step();

/// The same, and what a trainer writes of each step.
Comparison exported_step();

}  // namespace zero::benchmark
