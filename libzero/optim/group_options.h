#pragma once

/// Options of parameter groups: as LibTorch holds them, and as checkpoints name them.

#include <string>
#include <vector>

#include "checkpoint/training_state.h"
#include "libzero/optim/update_rule.h"

namespace zero {

struct PresentGroups {
  std::vector<OptionValues> options;
  std::string fault;  ///< Empty, or why these are not the groups that the optimizer was built with.
};

/// The options that `optimizer`'s groups have right now. `built`: how many there were at first.
/// `what` begins the fault: "step". Overwrites `groups`, in the memory it has.
void present_groups(const torch::optim::Optimizer& optimizer, const UpdateRule& rule,
                    std::size_t built, const std::string& what, PresentGroups& groups);

/// Empty, or which option of which group cannot be stepped with. `what` begins the message.
std::string fault_of(const UpdateRule& rule, const std::vector<OptionValues>& groups,
                     const std::string& what);

/// One line with every value of a group's options, exactly.
std::string describe(const UpdateRule& rule, const OptionValues& options);

/// By their names: "lr", "beta1", ...
checkpoint::GroupOptions named_options(const UpdateRule& rule, const OptionValues& options);

/// Overwrites what `named` has. Other names are ignored.
void apply_named_options(const UpdateRule& rule, const checkpoint::GroupOptions& named,
                         OptionValues& options);

}  // namespace zero
