#pragma once

/// Checkpoints that live as long as their Store: for tests of programs, and to keep a state across
/// a rebuild.

#include <memory>

#include "checkpoint/store.h"

namespace zero::checkpoint {

/// A new, empty store. put() copies what it is given. Throws no IoError; join() works within this
/// process, on the same store.
std::unique_ptr<Store> make_memory_store();

}  // namespace zero::checkpoint
