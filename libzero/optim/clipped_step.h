#pragma once

/// A step of gradients whose every element is bounded.

#include <cstdint>

#include "libzero/base/function_ref.h"
#include "libzero/optim/update_rule.h"

namespace zero {

/// Calls `use` for parts of `run`, in order, whose gradients are those of `run` times their factor,
/// each element brought into [-limit, limit], and whose factor is 1. `at`: where the part begins.
/// Bounded gradients pass through a piece of the cache, so that kernels stay as they are; the bits
/// do not depend on how runs are cut, since elements do not influence each other.
void in_clipped_runs(const UpdateRun& run, float limit,
                     FunctionRef<void(const UpdateRun& part, std::int64_t at)> use);

}  // namespace zero
