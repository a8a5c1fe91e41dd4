#pragma once

/// Keeps signals away from Gloo: it writes to sockets without MSG_NOSIGNAL, so a dead peer would
/// kill this process with SIGPIPE unless the writing thread blocks it.

#include <csignal>
#include <ctime>

namespace zero::gloo_backend {

/// Blocks SIGPIPE on this thread for the lifetime of the object, and swallows one that came
/// meanwhile.
class SigpipeBlock {
 public:
  SigpipeBlock() {
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~SigpipeBlock() {
    const timespec at_once{};
    if (!was_pending_) sigtimedwait(&pipe_, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SigpipeBlock(const SigpipeBlock&) = delete;
  SigpipeBlock& operator=(const SigpipeBlock&) = delete;

 private:
  sigset_t pipe_;
  sigset_t before_;
  bool was_pending_ = false;
};

}  // namespace zero::gloo_backend
