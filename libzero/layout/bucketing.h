#pragma once

/// Parameters -> flat order -> buckets. World size has no say here.

#include <span>
#include <vector>

#include "libzero/layout/layout.h"

namespace zero::layout_detail {

struct Bucketing {
  std::vector<Bucket> buckets;
  std::vector<Slot> slots;  ///< One for each parameter; an alias holds its owner's.
};

/// Lays out trainable owners in reverse registration order, one sequence for each dtype. A bucket
/// is closed when it holds a parameter and the next one would pass its cap; a parameter beyond the
/// cap gets a bucket of its own. Buckets of all dtypes are ordered by their latest-registered
/// parameter, the latest first. The input must be valid.
Bucketing make_buckets(std::span<const ParameterSpec> parameters, const LayoutOptions& options);

}  // namespace zero::layout_detail
