#pragma once

/// Stores and checkpoints by their paths; two sources, one of which a build chooses.

#include <memory>
#include <string>

#include "checkpoint/store.h"

namespace zero {

/// Throws Unavailable in a build without HDF5.
std::unique_ptr<checkpoint::Store> open_store(const std::string& root);

}  // namespace zero
