#include "libzero/optim/group_options.h"

#include "libzero/base/number_text.h"

namespace zero {

void present_groups(const torch::optim::Optimizer& optimizer, const UpdateRule& rule,
                    std::size_t built, const std::string& what, PresentGroups& groups) {
  groups.options.clear();
  groups.fault.clear();
  for (const auto& group : optimizer.param_groups()) {
    const auto values = rule.values_of(group.options());
    if (!values) {
      groups.fault = what +
                     ": a parameter group's options are no zero::" + std::string(rule.name()) +
                     "Options any more";
    }
    groups.options.push_back(values.value_or(OptionValues{}));
  }
  if (groups.options.size() != built) {
    groups.fault = what +
                   ": parameter groups were added or taken away after the optimizer was built; "
                   "build a new one: " +
                   std::to_string(groups.options.size()) + " instead of " + std::to_string(built);
  }
}

std::string fault_of(const UpdateRule& rule, const std::vector<OptionValues>& groups,
                     const std::string& what) {
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const std::string fault = rule.fault_of(groups[i]);
    if (!fault.empty()) return what + ": group " + std::to_string(i) + ": " + fault;
  }
  return "";
}

std::string describe(const UpdateRule& rule, const OptionValues& options) {
  std::string text;
  for (std::size_t i = 0; i < rule.option_names().size(); ++i) {
    text +=
        (i > 0 ? " " : "") + std::string(rule.option_names()[i]) + " " + number_text(options[i]);
  }
  return text;
}

checkpoint::GroupOptions named_options(const UpdateRule& rule, const OptionValues& options) {
  checkpoint::GroupOptions named;
  for (std::size_t i = 0; i < rule.option_names().size(); ++i)
    named[std::string(rule.option_names()[i])] = options[i];
  return named;
}

void apply_named_options(const UpdateRule& rule, const checkpoint::GroupOptions& named,
                         OptionValues& options) {
  for (std::size_t i = 0; i < rule.option_names().size(); ++i) {
    const auto found = named.find(std::string(rule.option_names()[i]));
    if (found != named.end()) options[i] = found->second;
  }
}

}  // namespace zero
