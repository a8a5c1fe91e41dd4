#pragma once

/// Which part of a model its gradient is large in.

#include <vector>

#include "libzero/optim/optimizer.h"

namespace zero {

/// Collective: by parameter group of the sharded optimizer, the L2 norm of the mean gradient of the
/// last window, before clipping; between backward() and step(), of the calls so far. Sums of
/// squares in float64, added exactly: the same bits on every rank, at every stage and on any number
/// of ranks. Infinite where an element is not finite. Gathers one parameter's gradient after the
/// other (Optimizer::gather), so it is for now and then; throws what that throws.
std::vector<double> group_norms(Optimizer& optimizer);

}  // namespace zero
