#pragma once

/// What ranks must believe alike about a checkpoint.

#include "checkpoint/training_state.h"
#include "libzero/collective/agreement.h"

namespace zero::checkpoint {

/// Everything in it, in a fixed order. `common` must outlive the result.
Facts facts_of(const CommonState& common);

}  // namespace zero::checkpoint
