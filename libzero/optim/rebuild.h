#pragma once

/// What Optimizer::rebuild() is asked for, and what it tells.

#include <torch/arg.h>

#include <set>
#include <string>
#include <vector>

namespace zero {

/// What starts fresh beside what must.
struct RebuildOptions {
  /// Names of parameters that start fresh although their name and shape are as they were: with the
  /// value that they have in the model. Of tied ones any name.
  TORCH_ARG(std::set<std::string>, fresh) = {};
};

/// What became of one parameter's state. Tied parameters are one, under their owner's name.
struct RebuiltParameter {
  std::string name;
  std::string why;  ///< "added", "resized: float32 [3] -> float32 [5]", ...; empty for most kept.
};

/// All in registration order, and the same on every rank.
struct RebuildReport {
  /// Trained before and now: master, moments and step count are as they were.
  std::vector<RebuiltParameter> kept;
  /// Trained now, with the model's value, moments of 0 and a step count of 0: added, unfrozen,
  /// resized or named in RebuildOptions::fresh.
  std::vector<RebuiltParameter> fresh;
  /// Trained before and not any more: frozen now, tied to another or not in the model. Their state
  /// is gone.
  std::vector<RebuiltParameter> dropped;
};

/// A line with the numbers, and one for each parameter that is not simply kept.
std::string to_text(const RebuildReport& report);

}  // namespace zero
