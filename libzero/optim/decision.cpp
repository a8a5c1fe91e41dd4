#include "libzero/optim/decision.h"

#include <cmath>
#include <limits>
#include <string>

#include "libzero/base/error.h"
#include "libzero/base/number_text.h"

namespace zero {
namespace {

/// Keeps the quotient finite, as PyTorch's clip_grad_norm_ does.
constexpr double kClipEpsilon = 1e-6;

void validate(const DecisionInput& input) {
  ZERO_REQUIRE(
      input.loss_scale > 0 && std::isfinite(input.loss_scale),
      "The loss scale of a step must be positive and finite: " + number_text(input.loss_scale));
  ZERO_REQUIRE(input.weight_sum >= 1,
               "The weights of a step's backward calls must add up to at least 1; pass a positive "
               "weight to at least one of them: " +
                   std::to_string(input.weight_sum));
  ZERO_REQUIRE(input.clip_norm >= 0, "clip_norm must not be negative; 0 turns clipping off: " +
                                         number_text(input.clip_norm));
}

}  // namespace

Decision decide(const DecisionInput& input) {
  validate(input);
  Decision decision;
  decision.apply = input.finite && std::isfinite(input.sum_of_squares);
  if (!decision.apply) {
    decision.grad_norm = std::isnan(input.sum_of_squares) ? input.sum_of_squares
                                                          : std::numeric_limits<double>::infinity();
    return decision;
  }
  const double divisor = input.loss_scale * static_cast<double>(input.weight_sum);
  decision.grad_norm = std::sqrt(input.sum_of_squares) / divisor;
  if (input.clip_norm > 0 && decision.grad_norm > input.clip_norm) {
    decision.clip_factor = input.clip_norm / (decision.grad_norm + kClipEpsilon);
  }
  decision.gradient_factor = static_cast<float>(decision.clip_factor / divisor);
  return decision;
}

}  // namespace zero
