#pragma once

/// Threads that take no signals: they stay with the threads of the program, whose handlers expect
/// them.

#include <csignal>
#include <thread>
#include <utility>

namespace zero {

/// Blocks all signals on this thread for the lifetime of the object; threads started meanwhile,
/// also by other libraries, block them for good. Lives and dies on one thread.
class AllSignalsBlock {
 public:
  /// Keeps the mask that the thread had, for the end.
  AllSignalsBlock() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~AllSignalsBlock() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  AllSignalsBlock(const AllSignalsBlock&) = delete;
  AllSignalsBlock& operator=(const AllSignalsBlock&) = delete;

 private:
  sigset_t before_;
};

/// Calls `function` on a new thread that blocks all signals; the caller's mask is as before when it
/// returns. Any thread. Throws std::system_error where no thread can be started.
template <typename Function>
std::thread start_quiet_thread(Function&& function) {
  const AllSignalsBlock no_signals;
  return std::thread(std::forward<Function>(function));
}

}  // namespace zero
