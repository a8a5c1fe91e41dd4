#pragma once

/// Stores and checkpoints by their paths. Two sources, one of which a build chooses: without HDF5
/// every function throws Unavailable.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "checkpoint/ranks/choose.h"
#include "checkpoint/store.h"

namespace zero {

std::unique_ptr<checkpoint::Store> open_store(const std::string& root);

/// Collective. See checkpoint::find_candidates. Files that a manifest names are waited for, as
/// with_patience() does.
checkpoint::Candidates find_checkpoints(const std::string& from, bool fall_back, Collective& comm);

/// One that another rank has seen: its files are waited for, the manifest too.
std::unique_ptr<checkpoint::Reader> open_checkpoint(const std::string& directory);

/// By its name; nothing if it has another than a root gives.
std::optional<std::int64_t> step_of_directory(const std::string& directory);

}  // namespace zero
