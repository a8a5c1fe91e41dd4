#pragma once

/// Clipping by group: a pure function, the same on every rank. Without LibTorch.

#include <cstdint>
#include <span>
#include <vector>

#include "libzero/optim/decision.h"

namespace zero {

/// Spans are by parameter group; gradients are raw, as in DecisionInput.
struct GroupClippingInput {
  std::span<const double>
      squares;  ///< Sum of each group's squares; infinite where one is not finite.
  std::span<const double> limits;  ///< The group's own clip_norm; 0: clipped with the others.
  double loss_scale = 1;
  std::int64_t weight_sum = 1;
  double clip_norm = 0;  ///< Of those others, together.
};

/// By parameter group. Keeps its memory from one decision to the next.
struct GroupClipping {
  std::vector<double> norms;  ///< Of the mean gradient, before clipping.
  std::vector<double> clip_factors;
  std::vector<float> gradient_factors;  ///< As in Decision.
};

/// `all` decides about everything together, and stands for every group unless one has a limit of
/// its own; then it becomes the decision about those that have none. Throws as decide() does.
void decide_groups(const GroupClippingInput& input, Decision& all, GroupClipping& groups);

}  // namespace zero
