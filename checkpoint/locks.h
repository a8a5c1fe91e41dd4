#pragma once

/// The two locks of a root. Their files stay; the kernel frees the locks when their holder ends.

#include <chrono>
#include <memory>
#include <string>

#include "checkpoint/file_system.h"

namespace zero::checkpoint {

enum class RootLock {
  kSave,  ///< kLockName: while somebody saves or removes.
  kJob,   ///< kJobLockName: as long as a job lives that saves here.
};

/// Somebody else holds a lock of a root.
class RootBusy : public ContractError {
 public:
  using ContractError::ContractError;
};

/// Long enough for is_held(), which holds the lock for an instant to find out.
inline constexpr std::chrono::milliseconds kLookWait{500};

/// The root must exist. Throws RootBusy, naming the lock, if somebody else holds it for longer than
/// `wait`; IoError, also for a file system without locks.
std::unique_ptr<FileLock> lock_root(FileSystem& files, const std::string& root, RootLock which,
                                    std::chrono::milliseconds wait = {});

/// Whether somebody holds it now; no if it was never taken, whose file is not made. Throws IoError
/// where this user may not know.
bool is_held(FileSystem& files, const std::string& root, RootLock which);

}  // namespace zero::checkpoint
