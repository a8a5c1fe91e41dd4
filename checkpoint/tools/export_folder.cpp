#include "checkpoint/tools/export_folder.h"

#include <cerrno>
#include <chrono>
#include <thread>

#include "checkpoint/locks.h"
#include "checkpoint/names.h"

namespace zero::checkpoint {
namespace {

constexpr std::chrono::milliseconds kPause{10};

/// Codes of a file system without locks for directories, or of a user who may not have one.
bool means_no_locks(int code) {
  return code == ENOLCK || code == ENOSYS || code == EOPNOTSUPP || code == EBADF ||
         code == EINVAL || code == EACCES;
}

std::vector<std::string> temporary_files(FileSystem& files, const std::string& folder) {
  std::vector<std::string> paths;
  try {
    for (const std::string& name : files.list(folder)) {
      const std::string path = join_path(folder, name);
      if (!is_export_temporary_name(name)) continue;
      if (files.status(path).kind == FileKind::kRegular) paths.push_back(path);
    }
  } catch (const FileError& error) {
    if (error.code() != EACCES) throw;  // A folder may be written without being listed.
  }
  return paths;
}

/// Empty once the file is gone, otherwise why it stays.
std::string problem_of_removing(FileSystem& files, const std::string& path) {
  try {
    files.unlink(path);
  } catch (const FileError& error) {
    if (error.code() != ENOENT) return error.what();
  }
  return {};
}

}  // namespace

ExportFolder::ExportFolder(FileSystem& files, const std::string& folder) {
  const std::vector<std::string> left = temporary_files(files, folder);
  try {
    remove(files, folder, left);
    const auto deadline = std::chrono::steady_clock::now() + kLookWait;
    shared_ = files.lock_directory(folder, Sharing::kShared);
    // Whoever is alone there removes what is left over, which takes no time.
    while (shared_ == nullptr && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(kPause);
      shared_ = files.lock_directory(folder, Sharing::kShared);
    }
  } catch (const FileError& error) {
    if (!means_no_locks(error.code())) throw;
    for (const std::string& path : left) keep(path, "this file system has no locks to tell");
  }
}

void ExportFolder::remove(FileSystem& files, const std::string& folder,
                          const std::vector<std::string>& left) {
  if (left.empty()) return;
  const std::unique_ptr<FileLock> alone = files.lock_directory(folder, Sharing::kAlone);
  for (const std::string& path : left) {
    const std::string problem =
        alone ? problem_of_removing(files, path) : "another export is at work in this folder";
    if (!problem.empty()) keep(path, problem);
  }
}

void ExportFolder::keep(const std::string& path, const std::string& why) {
  leftovers_.push_back(
      "a temporary file of an export stays, remove it when no export runs: " + path + ": " + why);
}

}  // namespace zero::checkpoint
