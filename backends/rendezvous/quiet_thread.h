#pragma once

/// A thread that takes no signals: they stay with the threads of the program, whose handlers expect
/// them.

#include <csignal>
#include <thread>
#include <utility>

namespace zero::rendezvous {

template <typename Function>
std::thread start_quiet_thread(Function&& function) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread thread(std::forward<Function>(function));
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return thread;
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
}

}  // namespace zero::rendezvous
