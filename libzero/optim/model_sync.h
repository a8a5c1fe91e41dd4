#pragma once

/// Starting alike: what ranks must agree on, and rank 0's values for everybody.

#include <string>
#include <vector>

#include "libzero/collective/collective.h"
#include "libzero/layout/layout.h"
#include "libzero/optim/named_tensors.h"
#include "libzero/optim/options.h"
#include "libzero/optim/parameter_table.h"
#include "libzero/optim/update_rule.h"

namespace zero {

/// One line for each parameter, buffer, group and option that must be the same on every rank.
std::vector<std::string> model_facts(const Layout& layout, const std::vector<NamedTensor>& buffers,
                                     const UpdateRule& rule, const RuleOptions& defaults,
                                     const Options& options);

/// Collective: overwrites the tensors with rank 0's values, whatever their dtype, strides and
/// device; they may be expanded.
void broadcast_from_rank_0(Collective& comm, const std::vector<NamedTensor>& tensors);

/// Overwrites `tensor`, which may be expanded, with a contiguous one of its shape, of any device.
void copy_into(const at::Tensor& tensor, const at::Tensor& contiguous);

/// Throws ContractError naming the option for values out of range.
void require_valid(const UpdateRule& rule, const RuleOptions& defaults, const Options& options);

}  // namespace zero
