#include "libzero/optim/update_rule.h"

#include "libzero/base/error.h"
#include "libzero/optim/adamw_rule.h"
#include "libzero/optim/sgd_rule.h"

namespace zero {
namespace {

std::unique_ptr<UpdateRule> make_rule(const AdamWOptions&, std::span<const RuleOptions>) {
  return std::make_unique<AdamWRule>();
}

std::unique_ptr<UpdateRule> make_rule(const SGDOptions&, std::span<const RuleOptions> groups) {
  return std::make_unique<SGDRule>(groups);
}

}  // namespace

UpdateRun UpdateRun::part(std::int64_t begin, std::int64_t end) const {
  UpdateRun run = *this;
  run.gradient += begin;
  run.master += begin;
  for (float*& moment : run.moments) {
    if (moment != nullptr) moment += begin;
  }
  if (low_precision != nullptr)
    run.low_precision =
        static_cast<std::byte*>(low_precision) + begin * size_of(low_precision_dtype);
  run.n = end - begin;
  return run;
}

std::unique_ptr<UpdateRule> make_update_rule(const RuleOptions& defaults,
                                             const std::vector<ParameterGroup>& groups) {
  std::vector<RuleOptions> all = {defaults};
  for (const ParameterGroup& group : groups) all.push_back(group.options);
  auto rule =
      std::visit([&](const auto& options) { return make_rule(options, std::span(all)); }, defaults);
  for (std::size_t i = 0; i < all.size(); ++i) {
    ZERO_REQUIRE(
        all[i].index() == defaults.index(),
        "optimizer: a parameter group has another rule's options than the optimizer, whose "
        "rule is " +
            std::string(rule->name()) + "; give all groups options of one type: group " +
            std::to_string(i));
  }
  return rule;
}

const torch::optim::OptimizerOptions& base_of(const RuleOptions& options) {
  return std::visit([](const auto& rule) -> const torch::optim::OptimizerOptions& { return rule; },
                    options);
}

}  // namespace zero
