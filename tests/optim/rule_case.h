#pragma once

/// The update rules that the tests of any rule go over (docs/new_update_rule.md).

#include <functional>
#include <string>
#include <vector>

#include "libzero/optim/optimizer.h"

namespace zero::testing {

struct RuleCase {
  std::string name = "AdamW";
  std::function<RuleOptions(double lr, double weight_decay)> options =
      [](double lr, double weight_decay) { return AdamWOptions(lr).weight_decay(weight_decay); };
  std::vector<StateKind> kept = {StateKind::kExpAvg, StateKind::kExpAvgSq};  ///< With the average.
  double ema = 0;
  bool in_every_precision = false;  ///< Otherwise in float32 alone.
};

/// Any rule, with an average of the weights beside it.
inline RuleCase averaged(RuleCase rule) {
  rule.name += "Ema";
  rule.kept.push_back(StateKind::kEma);
  rule.ema = 0.75;
  return rule;
}

inline RuleCase sgd_case() {
  return {"SGD",
          [](double lr, double weight_decay) { return SGDOptions(lr).weight_decay(weight_decay); },
          {}};
}

inline RuleCase momentum_case(bool nesterov = false) {
  return {nesterov ? "SGDNesterov" : "SGDMomentum",
          [nesterov](double lr, double weight_decay) {
            return SGDOptions(lr).momentum(0.9).nesterov(nesterov).weight_decay(weight_decay);
          },
          {StateKind::kMomentumBuffer}};
}

inline RuleCase in_every_precision(RuleCase rule) {
  rule.in_every_precision = true;
  return rule;
}

/// AdamW itself has tests of its own in every precision.
inline std::vector<RuleCase> all_rules() {
  return {{},
          in_every_precision(averaged({})),
          sgd_case(),
          averaged(sgd_case()),
          in_every_precision(momentum_case()),
          momentum_case(true)};
}

}  // namespace zero::testing
