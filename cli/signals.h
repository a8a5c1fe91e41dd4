#pragma once

/// Signals as events of the launcher's loop.

#include <csignal>
#include <vector>

#include "cli/unique_fd.h"

namespace zero::cli {

/// SIGINT, SIGTERM or SIGHUP: the user or the system wants the run to end.
bool asks_to_end(int signal) noexcept;

/// Blocks the signals that a launcher handles, for the calling thread and those that it starts, and
/// reads them one by one. SIGHUP and SIGINT stay as they are where the caller ignores them (nohup,
/// background jobs of a script).
class Signals {
 public:
  /// Throws IoError.
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  int fd() const noexcept { return fd_.get(); }

  /// What has arrived since the last call. SIGCHLD is among them.
  std::vector<int> take();

 private:
  sigset_t before_{};
  UniqueFd fd_;
};

}  // namespace zero::cli
