#pragma once

/// What of a rank's state is offloaded, in the order in which a step walks over it.

#include <vector>

#include "libzero/layout/layout.h"
#include "libzero/offload/offload_plan.h"
#include "libzero/optim/shard_state.h"

namespace zero {

/// Elements count from the beginning of each bucket's `stepped`. Masters of 16-bit buckets, moments
/// of all; no span for a bucket of which nothing is kept.
std::vector<OffloadSpan> offload_spans(const Layout& layout, const std::vector<BucketState>& states,
                                       int stage, int world_size);

/// The parameters of float32 buckets, which are their own masters: for what is read ahead of its
/// use.
std::vector<OffloadSpan> own_master_spans(const Layout& layout,
                                          const std::vector<BucketState>& states);

}  // namespace zero
