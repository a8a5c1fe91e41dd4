#pragma once

/// Which random state a rank takes from a checkpoint.

#include <optional>

#include "checkpoint/store.h"
#include "libzero/optim/load_plan.h"
#include "libzero/optim/resume.h"

namespace zero {

/// Its own where `rank` was there when it was saved, else one derived from rank 0's; nothing: it
/// keeps the present one. What is to be said about it goes to items and differences of `plan`.
std::optional<checkpoint::Blob> plan_random_state(const checkpoint::Reader& reader,
                                                  const LoadOptions& options, int rank,
                                                  LoadPlan& plan);

}  // namespace zero
