#include "cli/place.h"

#include <filesystem>
#include <system_error>

#include "checkpoint/hdf5_store.h"
#include "checkpoint/names.h"
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
    throw IoError("this is no directory, name a checkpoint's directory or the root of several: '" +
                  path + "'");
  }
}

bool has_manifest(FileSystem& files, const std::string& path) {
  const std::string manifest = checkpoint::join_path(path, checkpoint::kManifestName);
  return files.status(manifest).kind != FileKind::kMissing;
}

std::string name_of(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  return std::string(path.substr(path.rfind('/') + 1));
}

}  // namespace

std::string find_checkpoint(FileSystem& files, const std::string& path) {
  require_directory(path);
  if (has_manifest(files, path)) return path;
  std::string newest;  // names have a fixed number of digits: their order is the steps'
  for (const std::string& name : files.list(path)) {
    if (checkpoint::parse_step_name(name)) newest = name;
  }
  if (!newest.empty()) return checkpoint::join_path(path, newest);
  if (checkpoint::parse_step_name(name_of(path))) return path;  // damaged: let others say how
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
  const auto named = checkpoint::parse_step_name(name_of(directory));
  if (!named || *named == step) return;
  throw FormatError("a checkpoint lies under the name of another step, rename it back: step " +
                    std::to_string(step) + " in '" + directory + "'");
}

void require_no_checkpoint(FileSystem& files, const std::string& path) {
  ZERO_REQUIRE(!has_manifest(files, path),
               "this is one checkpoint's directory, name the root that holds it: '" + path + "'");
}

void require_root(FileSystem& files, const std::string& path) {
  require_directory(path);
  require_no_checkpoint(files, path);
}

}  // namespace zero::cli
