#pragma once

/// For file systems shared by machines whose caches of directories lag behind (NFS).

#include <chrono>
#include <functional>
#include <memory>
#include <string_view>

#include "checkpoint/file_system.h"

namespace zero::checkpoint {

struct Patience {
  /// Waits of `first`, twice that, four times that, ... for all files together: 1.9 s.
  int waits = 5;
  std::chrono::milliseconds first{60};
  /// Empty: the calling thread sleeps.
  std::function<void(std::chrono::milliseconds)> sleep = nullptr;
};

/// `files`, but a file that is known to exist is waited for: where open() finds nothing (ENOENT,
/// ESTALE) or status() says kMissing, and `is_known` is true of the path's last component, it is
/// tried again after a while. Once the waits are used up, for whatever files, the answer stands.
/// Functions may be called from several threads.
std::shared_ptr<FileSystem> with_patience(std::shared_ptr<FileSystem> files,
                                          std::function<bool(std::string_view name)> is_known,
                                          Patience patience = {});

}  // namespace zero::checkpoint
