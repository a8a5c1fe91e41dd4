#pragma once

/// Which part of a model its gradient is large in.

#include <vector>

#include "libzero/collective/collective.h"
#include "libzero/optim/optimizer.h"

namespace zero {

/// Collective: by parameter group of the sharded optimizer, the L2 norm of the mean gradient of the
/// last window, before clipping; between backward() and step(), of the calls so far. Sums of
/// squares in float64 over blocks, added exactly: the same bits on every rank, at every stage and,
/// unless Options::shard_alignment gave that up, on any number of ranks. Not finite where an
/// element is not. `comm` has the optimizer's ranks, its constructor's argument for one. One
/// all-reduce of some hundred bytes a group; throws what it throws.
std::vector<double> group_norms(Optimizer& optimizer, Collective& comm);

}  // namespace zero
