#pragma once

/// What an optimizer is made from, once the ranks agree about it.

#include <memory>
#include <vector>

#include "libzero/collective/collective.h"
#include "libzero/layout/layout.h"
#include "libzero/optim/loss_scaler.h"
#include "libzero/optim/named_tensors.h"
#include "libzero/optim/options.h"
#include "libzero/optim/parameter_table.h"
#include "libzero/optim/update_rule.h"

namespace zero {

struct BuildPlan {
  ParameterTable table;
  Layout layout;
  LossScaler scaler;
  std::unique_ptr<UpdateRule> rule;
  RuleOptions defaults;  ///< That it was made from, with the options' groups.
  std::shared_ptr<const cuda::KernelApi> kernels;  ///< Null: state does not lie on a GPU.
  std::shared_ptr<Collective> comm;                ///< Split off for the optimizer alone.
};

/// Collective over `comm`, which the plan does not take. Checks model and options and compares with
/// the other ranks. Where one rank has something that cannot be trained or an option out of range
/// it throws what is wrong, and every other rank ContractError, naming that rank; where they
/// disagree every rank throws ContractError with the first difference.
BuildPlan agree_on_plan(const std::vector<NamedTensor>& parameters,
                        const std::vector<NamedTensor>& buffers, const RuleOptions& defaults,
                        const Options& options, Collective& comm);

/// Collective. Checks model and options, splits a communicator off `comm` and agrees on a plan
/// over it. What agree_on_plan() throws passes through, and `comm` can be used again.
BuildPlan make_build_plan(const std::vector<NamedTensor>& parameters,
                          const std::vector<NamedTensor>& buffers, const RuleOptions& defaults,
                          const Options& options, Collective& comm);

}  // namespace zero
