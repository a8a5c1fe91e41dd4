#include "libzero/optim/group_clipping.h"

#include <algorithm>
#include <cmath>

namespace zero {
namespace {

Decision decide_alone(const GroupClippingInput& input, double squares, double limit) {
  return decide({.sum_of_squares = squares,
                 .finite = std::isfinite(squares),
                 .loss_scale = input.loss_scale,
                 .weight_sum = input.weight_sum,
                 .clip_norm = limit});
}

/// Added in order of groups, in fp64.
Decision decide_others(const GroupClippingInput& input) {
  double squares = 0;
  for (std::size_t i = 0; i < input.squares.size(); ++i)
    if (input.limits[i] == 0) squares += input.squares[i];
  return decide_alone(input, squares, input.clip_norm);
}

}  // namespace

void decide_groups(const GroupClippingInput& input, Decision& all, GroupClipping& groups) {
  const bool is_apart =
      std::any_of(input.limits.begin(), input.limits.end(), [](double limit) { return limit > 0; });
  if (is_apart && all.apply) {
    const Decision others = decide_others(input);
    all.clip_factor = others.clip_factor;
    all.gradient_factor = others.gradient_factor;
  }
  groups.norms.clear();
  groups.clip_factors.clear();
  groups.gradient_factors.clear();
  for (std::size_t i = 0; i < input.squares.size(); ++i) {
    const Decision own = decide_alone(input, input.squares[i], input.limits[i]);
    const Decision& counts = input.limits[i] > 0 && all.apply ? own : all;
    groups.norms.push_back(own.grad_norm);
    groups.clip_factors.push_back(counts.clip_factor);
    groups.gradient_factors.push_back(counts.gradient_factor);
  }
}

}  // namespace zero
