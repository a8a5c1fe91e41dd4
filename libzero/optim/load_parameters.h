#pragma once

/// Starting from somebody's weights: what Optimizer::load_parameters may do, and what it did.

#include <torch/arg.h>

#include <string>
#include <vector>

#include "libzero/optim/resume.h"

namespace zero {

/// Everything is off by default; whatever is used is reported.
struct LoadParametersOptions {
  /// Parameters and buffers that the file lacks keep their present value.
  TORCH_ARG(bool, allow_missing) = false;
  /// Leave out what the file has and the model has not.
  TORCH_ARG(bool, allow_extra) = false;
  /// The file may hold another floating type than the model. Values are rounded to nearest, ties to
  /// even; float64 goes through float32.
  TORCH_ARG(bool, allow_dtype_change) = false;
};

/// What Optimizer::load_parameters did, the same on every rank.
struct ParametersReport {
  std::string file;
  std::vector<LoadItem> items;
  std::vector<std::string> warnings;  ///< Values that another type turned into infinity, ...
};

/// A table, a line for each item and each warning.
std::string to_text(const ParametersReport& report);

}  // namespace zero
