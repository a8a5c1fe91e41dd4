#pragma once

/// What the store and its writers do to directories.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/file_system.h"

namespace zero::checkpoint {

/// Makes the root, and its name durable, unless it is there.
void ensure_root(FileSystem& files, const std::string& root);

/// Unlinks the files that a checkpoint may have, then removes the directory. What else is in it
/// makes it fail.
void remove_checkpoint_directory(FileSystem& files, const std::string& path);

/// Removes .tmp-* and .del-*; returns what could not be removed and why. REQUIRES RootLock::kSave.
std::vector<std::string> remove_leftovers(FileSystem& files, const std::string& root);

/// A directory that an interrupted save or removal has left, unless one is under way.
struct Leftover {
  std::string name;
  std::uint64_t bytes = 0;  ///< Of the files in it.
};

/// All of a root, by name.
std::vector<Leftover> find_leftovers(FileSystem& files, const std::string& root);

/// Bytes of the regular files in a directory, those below it not.
std::uint64_t bytes_in(FileSystem& files, const std::string& directory);

/// What LATEST says, its first line; empty if there is none, or none that says something.
std::string read_latest(FileSystem& files, const std::string& root);

/// Replaces the hint LATEST.
void write_latest(FileSystem& files, const std::string& root, std::string_view name);

}  // namespace zero::checkpoint
