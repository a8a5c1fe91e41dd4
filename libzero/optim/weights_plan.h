#pragma once

/// Which tensor of a file goes where in the model, and everything that does not fit.

#include <cstdint>
#include <string>
#include <vector>

#include "libzero/optim/load_parameters.h"
#include "libzero/optim/parameter_table.h"
#include "libzero/optim/weight_source.h"

namespace zero {

/// A tensor of the model to be loaded.
struct PlannedTensor {
  /// A row of the table, or its number of rows plus a buffer's index.
  std::int64_t target = 0;
  /// In the file. Tied parameters may have several: they must hold the same values.
  std::vector<WeightEntry> sources;
};

struct WeightsPlan {
  std::vector<PlannedTensor> tensors;  ///< In order of targets.
  std::vector<LoadItem> items;
  std::vector<std::string> problems;  ///< Empty: the file fits.
};

/// A tied parameter is found under its owner's or any of its aliases' names, and under those that
/// the file itself lists as aliases.
WeightsPlan plan_weights(const ParameterTable& table, const std::vector<NamedTensor>& buffers,
                         const WeightSource& source, const LoadParametersOptions& options);

}  // namespace zero
