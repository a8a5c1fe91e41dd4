#pragma once

#include <memory>

#include "libzero/collective/collective.h"

namespace zero::benchmark {

/// Everything of `inner` but the bulk: reduce_scatter adds this rank's own slice only, and
/// all_gather of more than a few KiB gives everybody his own slice again. What a step costs when
/// communication is free; the parameters that come out are wrong.
std::shared_ptr<Collective> silent(std::shared_ptr<Collective> inner);

}  // namespace zero::benchmark
