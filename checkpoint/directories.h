#pragma once

/// What the store and its writers do to directories.

#include <memory>
#include <string>
#include <vector>

#include "checkpoint/file_system.h"

namespace zero::checkpoint {

/// Makes the root, and its name durable, unless it is there.
void ensure_root(FileSystem& files, const std::string& root);

/// Throws ContractError if somebody else holds the lock.
std::unique_ptr<FileLock> lock_root(FileSystem& files, const std::string& root);

/// Unlinks the files that a checkpoint may have, then removes the directory. What else is in it
/// makes it fail.
void remove_checkpoint_directory(FileSystem& files, const std::string& path);

/// Removes .tmp-* and .del-*; returns what could not be removed and why. REQUIRES the lock.
std::vector<std::string> remove_leftovers(FileSystem& files, const std::string& root);

/// Replaces the hint LATEST.
void write_latest(FileSystem& files, const std::string& root, std::string_view name);

}  // namespace zero::checkpoint
