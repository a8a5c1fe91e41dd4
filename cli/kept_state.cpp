#include "cli/kept_state.h"

#include "libzero/base/error.h"

namespace zero::cli {

std::vector<StateKind> KeptState::kinds() const {
  ZERO_REQUIRE(
      rule == "AdamW" || rule == "SGD",
      "this program does not know what the checkpoint's update rule keeps, choose one with "
      "--optimizer: " +
          rule);
  ZERO_REQUIRE(rule == "SGD" || !momentum,
               "--momentum is for --optimizer sgd; AdamW always keeps its two moments");
  std::vector<StateKind> kinds;
  if (rule == "AdamW") kinds = {StateKind::kExpAvg, StateKind::kExpAvgSq};
  if (momentum) kinds.push_back(StateKind::kMomentumBuffer);
  if (ema) kinds.push_back(StateKind::kEma);
  return kinds;
}

std::string KeptState::text() const {
  return rule + (momentum ? " with momentum" : "") + (ema ? ", an average of the weights" : "");
}

}  // namespace zero::cli
