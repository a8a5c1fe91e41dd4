#pragma once

/// What ranks tell each other before a step, and what they conclude, alike.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libzero/collective/collective.h"
#include "libzero/optim/exact_sum.h"

namespace zero {

/// One call of Optimizer::backward.
struct BackwardCall {
  double loss = 0;
  std::int64_t weight = 1;
};

struct StepVote {
  ExactSum sum_of_squares;                ///< Of this rank's slices of the accumulated gradient; finite blocks only.
  bool finite = true;                     ///< False if a gradient is infinity or NaN.
  std::int32_t nonfinite_parameter = -1;  ///< The first such, in registration order.
  std::int32_t unused_parameter = -1;     ///< First parameter without gradient, where that is an error.
  bool failed = false;                    ///< A backward call of this rank threw.
  std::vector<BackwardCall> calls;        ///< In order; as many on every rank.
};

struct StepTally {
  double sum_of_squares = 0;
  bool finite = true;
  std::int32_t nonfinite_parameter = -1;
  std::int32_t unused_parameter = -1;
  int unused_rank = -1;
  int failed_rank = -1;
  std::int64_t weight = 0;
  double loss = 0;  ///< Weighted mean; losses added in global index order: call k of rank r is number k * size + r.
};

/// Collective. Ranks with different numbers of calls get a ContractError that says each one's (see `label`).
StepTally gather_votes(Collective& comm, const StepVote& vote, std::string_view label);

}  // namespace zero
