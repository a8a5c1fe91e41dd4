#pragma once

#include "libzero/kernels/adamw.h"

namespace zero::benchmark {

/// Reads and writes what adamw_step() does, in the same order and with the same vectors, but adds
/// where that calculates: what the memory allows. Without the prefetching that is adamw_step()'s
/// own idea.
void walk_streams(const AdamWRun& run);

}  // namespace zero::benchmark
