#pragma once

/// What is compared with what. All run on memory larger than any cache.

#include <string>
#include <vector>

#include "benchmarks/common/rounds.h"
#include "streams.h"

namespace zero::benchmark {

/// adamw_step() against its floor: the same streams without arithmetic. All formats, on one and two
/// threads.
std::vector<Comparison> step_cases(Streams& streams);

/// The norm's squares taken with the last addition, against the addition alone.
std::vector<Comparison> sum_cases(Streams& streams);

/// adamw_step() against torch's AdamW, fused and not, on one thread. How torch's allocator gets
/// its memory is the caller's business; `suffix` ends the ids and says so.
std::vector<Comparison> torch_cases(Streams& streams, const std::string& suffix);

}  // namespace zero::benchmark
