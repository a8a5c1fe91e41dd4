#pragma once

#include <memory>

#include "libzero/collective/collective.h"

namespace zero {

/// A world of one rank. It computes like any other (sums are widened and accumulated, all_gather
/// copies), so that callers need no special case. Finishes its work inside each call.
std::shared_ptr<Collective> make_self();

}  // namespace zero
