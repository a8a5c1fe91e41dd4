#pragma once

/// Options of parameter groups: as LibTorch holds them, and as checkpoints name them.

#include <string>
#include <vector>

#include "checkpoint/training_state.h"
#include "libzero/optim/options.h"

namespace zero {

struct PresentGroups {
  std::vector<AdamWOptions> options;
  std::string fault;  ///< Empty, or why these are not the groups that the optimizer was built with.
};

/// The options that `optimizer`'s groups have right now. `built`: how many there were at first.
/// `what` begins the fault: "step". The first form overwrites `groups`, in the memory it has.
void present_groups(const torch::optim::Optimizer& optimizer, std::size_t built,
                    const std::string& what, PresentGroups& groups);
PresentGroups present_groups(const torch::optim::Optimizer& optimizer, std::size_t built,
                             const std::string& what);

/// Empty, or which option of which group cannot be stepped with. `what` begins the message.
std::string fault_of(const std::vector<AdamWOptions>& groups, const std::string& what);

/// lr, beta1, beta2, eps and weight_decay by their names.
checkpoint::GroupOptions named_options(const AdamWOptions& options);

/// Overwrites what `named` has. Other names are ignored.
void apply_named_options(const checkpoint::GroupOptions& named, AdamWOptions& options);

}  // namespace zero
