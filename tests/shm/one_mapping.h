#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "libzero/collective/collective.h"

namespace zero::shm_test {

/// Ranks as threads that share one mapping, so that ThreadSanitizer, which goes by addresses, sees
/// what one rank does to another's memory.
std::vector<std::shared_ptr<Collective>> make_world_on_one_mapping(
    int size, std::chrono::milliseconds timeout);

}  // namespace zero::shm_test
