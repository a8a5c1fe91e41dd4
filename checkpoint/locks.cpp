#include "checkpoint/locks.h"

#include <cerrno>
#include <thread>

#include "checkpoint/names.h"

namespace zero::checkpoint {
namespace {

constexpr std::chrono::milliseconds kPause{10};

std::string path_of(const std::string& root, RootLock which) {
  return join_path(root, which == RootLock::kSave ? kLockName : kJobLockName);
}

[[noreturn]] void refuse_busy(const std::string& root, RootLock which) {
  if (which == RootLock::kSave) {
    throw RootBusy(
        "a save or a removal is under way in this root, wait for it or give each job a root of its "
        "own: " +
        root);
  }
  throw RootBusy(
      "another job saves into this root; wait for its end, or give each job a root of its own. It "
      "holds the lock " +
      path_of(root, which));
}

}  // namespace

std::unique_ptr<FileLock> lock_root(FileSystem& files, const std::string& root, RootLock which,
                                    std::chrono::milliseconds wait) {
  const auto deadline = std::chrono::steady_clock::now() + wait;
  const std::string path = path_of(root, which);
  try {
    std::unique_ptr<FileLock> lock = files.lock(path);
    while (lock == nullptr && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(kPause);
      lock = files.lock(path);
    }
    if (lock == nullptr) refuse_busy(root, which);
    return lock;
  } catch (const FileError& error) {
    if (error.code() != ENOLCK && error.code() != ENOSYS && error.code() != EOPNOTSUPP) throw;
    throw FileError(
        "a lock; set `lock` to false in Hdf5StoreOptions or CheckpointOptions if only one job "
        "saves here (flock)",
        path, error.code());
  }
}

bool is_held(FileSystem& files, const std::string& root, RootLock which) {
  const std::string path = path_of(root, which);
  return files.status(path).kind != FileKind::kMissing && files.lock(path) == nullptr;
}

}  // namespace zero::checkpoint
