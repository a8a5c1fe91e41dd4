#pragma once

/// What training keeps for each element beside its master, as `zero estimate` is told.

#include <string>
#include <vector>

#include "libzero/estimate/memory_estimate.h"

namespace zero::cli {

struct KeptState {
  std::string rule = "AdamW";  ///< As checkpoints name it.
  bool momentum = false;       ///< SGD's buffer.
  bool ema = false;            ///< The average of the masters, beside any rule.

  /// In the order in which an optimizer keeps them. Throws ContractError for a rule that is neither
  /// AdamW nor SGD, and for momentum with AdamW.
  std::vector<StateKind> kinds() const;
  /// "SGD with momentum, an average of the weights"
  std::string text() const;
};

}  // namespace zero::cli
