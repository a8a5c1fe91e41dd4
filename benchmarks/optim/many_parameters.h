#pragma once

#include "benchmarks/common/rounds.h"

namespace zero::benchmark {

/// step() of 5,000 parameters of 1,000 to 2,000 elements against step() of one parameter with as
/// many elements in all, on `world_size` ranks that are threads of this process. Reductions have
/// ended before the time begins.
Comparison many_parameters(int world_size);

}  // namespace zero::benchmark
