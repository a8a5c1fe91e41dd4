#pragma once

#include "benchmarks/common/rounds.h"

namespace zero::benchmark {

/// Windows of some 10 ms of one rank that a timeline, a meter and a watch over late ranks observe,
/// against windows of one that nobody observes.
Comparison observed_step();

}  // namespace zero::benchmark
