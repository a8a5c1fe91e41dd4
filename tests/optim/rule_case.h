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
  std::vector<StateKind> moments = {StateKind::kExpAvg, StateKind::kExpAvgSq};
};

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

inline std::vector<RuleCase> all_rules() {
  return {{}, sgd_case(), momentum_case(), momentum_case(true)};
}

}  // namespace zero::testing
