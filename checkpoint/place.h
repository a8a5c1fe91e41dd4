#pragma once

/// What a path names: one checkpoint, or a root of several. The same for whoever is given one.

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/file_system.h"

namespace zero::checkpoint {

struct Place {
  /// The directory is a checkpoint's own, or what is left of one: it is named as one, or holds a
  /// file of one. Nobody takes that for an empty root.
  bool is_checkpoint = false;
  /// Of a root: the names of its checkpoints' directories, newest first, damaged ones among them.
  std::vector<std::string> steps;
};

/// Looks into a directory. Throws IoError, also if it is missing.
Place look_at_place(FileSystem& files, const std::string& path);

/// Empty, or what is wrong: the directory bears the name of another step than its manifest's.
std::string problem_of_name(const std::string& directory, std::int64_t step);

}  // namespace zero::checkpoint
