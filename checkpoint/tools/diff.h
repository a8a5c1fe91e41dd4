#pragma once

/// Whether two checkpoints hold the same training state.

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/progress.h"
#include "checkpoint/store.h"

namespace zero::checkpoint {

struct Difference {
  std::string
      subject;  ///< "parameter w, exp_avg", "group 0, lr", "scaler", "counter samples_seen"...
  std::string problem;  ///< "3 of 49 elements differ, largest difference 0.5 at [1, 2]: 1 and 1.5".
  std::int64_t elements = 0;      ///< Different ones; 0 where it is no tensor.
  double largest_difference = 0;  ///< |a - b|; NaN against a number counts as infinity.
};

/// Compares parameters by name (shape, dtype, group, trainability, alias), every state bit by bit,
/// the step, applied steps, group options, scaler, counters and shared blobs. Not: the order of
/// parameters, world sizes, stage, layout ("layout." counters), run ids, ranks' blobs. An alias
/// that both have is compared where its owner is. All differences, in order of the first's
/// parameters, then those that only the second has, then the rest. Memory: 2 MiB and one block of
/// each. Throws FormatError (damage), IoError, Cancelled.
std::vector<Difference> diff(const Reader& a, const Reader& b, const Progress& progress = {});

}  // namespace zero::checkpoint
