#include "cli/place.h"

#include <filesystem>
#include <system_error>

#include "checkpoint/hdf5_store.h"
#include "checkpoint/place.h"
#include "libzero/base/error.h"

namespace zero::cli {
namespace {

using checkpoint::FileKind;
using checkpoint::FileSystem;

/// Symbolic links count as what they lead to: people put data on another disk that way.
void require_directory(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) {
    throw IoError("there is no such directory, check the path: '" + path + "'");
  }
  if (status.type() == std::filesystem::file_type::none) {
    throw IoError("a directory cannot be looked at: " + error.message() + ": '" + path + "'");
  }
  if (status.type() != std::filesystem::file_type::directory) {
    throw IoError(
        "this is no directory; a checkpoint is the directory that holds MANIFEST.json, name that "
        "or "
        "the root of several: '" +
        path + "'");
  }
}

}  // namespace

std::string find_checkpoint(FileSystem& files, const std::string& path) {
  require_directory(path);
  const checkpoint::Place place = checkpoint::look_at_place(files, path);
  if (place.is_checkpoint) return path;
  if (!place.steps.empty()) return checkpoint::join_path(path, place.steps.front());
  throw IoError(
      "there is no checkpoint here, name a checkpoint's directory or the root of several: '" +
      path + "'");
}

std::unique_ptr<checkpoint::Reader> open_place(const std::shared_ptr<FileSystem>& files,
                                               const std::string& path) {
  const std::string directory = find_checkpoint(*files, path);
  std::unique_ptr<checkpoint::Reader> reader = checkpoint::open_checkpoint(files, directory);
  require_name_of_step(directory, reader->info().step);
  return reader;
}

void require_name_of_step(const std::string& directory, std::int64_t step) {
  const std::string problem = checkpoint::problem_of_name(directory, step);
  if (!problem.empty()) throw FormatError(problem);
}

void require_no_checkpoint(FileSystem& files, const std::string& path) {
  if (files.status(path).kind == FileKind::kMissing) return;
  require_directory(path);
  ZERO_REQUIRE(!checkpoint::look_at_place(files, path).is_checkpoint,
               "this is one checkpoint's directory, name the root that holds it: '" + path + "'");
}

void require_root(FileSystem& files, const std::string& path) {
  require_directory(path);
  require_no_checkpoint(files, path);
}

}  // namespace zero::cli
