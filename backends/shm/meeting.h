#pragma once

#include <chrono>
#include <memory>

#include "backends/shm/joining.h"
#include "libzero/collective/key_value_store.h"

namespace zero::shm {

/// The ranks of a world find each other through the store. Returns null, or why there is no shared
/// memory, the same on all ranks. `joining` is this rank's. Throws CommError naming the rank that
/// fell silent or left.
std::unique_ptr<Refusal> meet(KeyValueStore& store, int rank, int size,
                              std::chrono::milliseconds timeout, Joining& joining);

}  // namespace zero::shm
