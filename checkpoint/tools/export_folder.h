#pragma once

/// The folder that exports write into, and what dead ones have left there.

#include <memory>
#include <string>
#include <vector>

#include "checkpoint/file_system.h"

namespace zero::checkpoint {

/// Says, as long as it lives, that somebody exports into the folder: the kernel forgets it when the
/// process ends, so what lies there while nobody says it is left over. On file systems without
/// locks it says nothing, and nothing is removed.
class ExportFolder {
 public:
  /// Removes the temporary files of exports that have ended without an end, if nobody exports into
  /// the folder now. Throws IoError.
  ExportFolder(FileSystem& files, const std::string& folder);

  /// One sentence for each temporary file that stays, although it may be left over.
  const std::vector<std::string>& leftovers() const { return leftovers_; }

 private:
  void remove(FileSystem& files, const std::string& folder, const std::vector<std::string>& left);
  void keep(const std::string& path, const std::string& why);

  std::unique_ptr<FileLock> shared_;
  std::vector<std::string> leftovers_;
};

}  // namespace zero::checkpoint
