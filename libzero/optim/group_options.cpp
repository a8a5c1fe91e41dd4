#include "libzero/optim/group_options.h"

#include <tuple>

#include "libzero/base/error.h"
#include "libzero/optim/model_sync.h"

namespace zero {

void present_groups(const torch::optim::Optimizer& optimizer, std::size_t built,
                    const std::string& what, PresentGroups& groups) {
  groups.options.clear();
  groups.fault.clear();
  for (const auto& group : optimizer.param_groups()) {
    const auto* options = dynamic_cast<const AdamWOptions*>(&group.options());
    if (options == nullptr)
      groups.fault = what + ": a parameter group's options are no zero::AdamWOptions any more";
    groups.options.push_back(options != nullptr ? *options : AdamWOptions());
  }
  if (groups.options.size() != built) {
    groups.fault = what +
                   ": parameter groups were added or taken away after the optimizer was built; "
                   "build a new one: " +
                   std::to_string(groups.options.size()) + " instead of " + std::to_string(built);
  }
}

PresentGroups present_groups(const torch::optim::Optimizer& optimizer, std::size_t built,
                             const std::string& what) {
  PresentGroups groups;
  present_groups(optimizer, built, what, groups);
  return groups;
}

std::string fault_of(const std::vector<AdamWOptions>& groups, const std::string& what) {
  try {
    for (std::size_t i = 0; i < groups.size(); ++i)
      require_valid(groups[i], what + ": group " + std::to_string(i));
  } catch (const ContractError& error) {
    return error.what();
  }
  return "";
}

checkpoint::GroupOptions named_options(const AdamWOptions& options) {
  const auto [beta1, beta2] = options.betas();
  return {{"lr", options.lr()},
          {"beta1", beta1},
          {"beta2", beta2},
          {"eps", options.eps()},
          {"weight_decay", options.weight_decay()}};
}

void apply_named_options(const checkpoint::GroupOptions& named, AdamWOptions& options) {
  auto [beta1, beta2] = options.betas();
  for (const auto& [name, value] : named) {
    if (name == "lr") options.lr(value);
    if (name == "beta1") beta1 = value;
    if (name == "beta2") beta2 = value;
    if (name == "eps") options.eps(value);
    if (name == "weight_decay") options.weight_decay(value);
  }
  options.betas({beta1, beta2});
}

}  // namespace zero
