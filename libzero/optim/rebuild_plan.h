#pragma once

/// Which parameters keep their state when an optimizer is rebuilt: pure, no tensor is looked at.

#include <cstdint>
#include <span>
#include <vector>

#include "libzero/layout/layout.h"
#include "libzero/optim/rebuild.h"

namespace zero {

struct RebuildPlan {
  /// For each row of the model now: the row of before, trained and no alias, whose state it takes,
  /// or -1. Frozen rows and aliases have -1.
  std::vector<std::int32_t> sources;
  RebuildReport report;
};

/// Rows belong together by name, tied ones under any of their names. `lost`: for each row of
/// before, whether its tensor was changed so that its values can be read no longer. Throws
/// ContractError for names that are tied now and stood for different parameters before, and for a
/// name in `options.fresh` that is no trainable parameter's.
RebuildPlan plan_rebuild(std::span<const ParameterSpec> before, const std::vector<bool>& lost,
                         std::span<const ParameterSpec> after, const RebuildOptions& options);

}  // namespace zero
