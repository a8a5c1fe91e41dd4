#pragma once

/// Sees to it that nothing outlives a launcher that was killed.

#include <sys/types.h>

#include "cli/unique_fd.h"

namespace zero::cli {

/// A small process that holds one end of a pipe. When the launcher dies without a word, the pipe
/// closes and the keeper kills the process groups that it was told of. (The kernel's death signal
/// reaches the ranks only, not what they started; and no handler runs in a launcher killed by
/// SIGKILL.)
class Keeper {
 public:
  /// Forks: call it before the process has a second thread. Throws IoError.
  Keeper();
  ~Keeper();  ///< All is over: the keeper leaves without killing.
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  pid_t pid() const noexcept { return pid_; }
  void watch(pid_t process_group) noexcept;
  /// All in it have been killed. Call it before the leader is reaped: afterwards the number may be
  /// somebody else's.
  void forget(pid_t process_group) noexcept;

 private:
  void tell(pid_t message) noexcept;

  UniqueFd pipe_;
  pid_t pid_ = -1;
};

}  // namespace zero::cli
