#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace zero::nccl {

/// A mutex for which one can wait for a while. Like std::timed_mutex, but ThreadSanitizer sees what
/// it does.
class Gate {
 public:
  void lock() {
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [&] { return !taken_; });
    taken_ = true;
  }

  template <class Clock, class Duration>
  bool try_lock_until(const std::chrono::time_point<Clock, Duration>& time) {
    std::unique_lock lock(mutex_);
    if (!opened_.wait_until(lock, time, [&] { return !taken_; })) return false;
    taken_ = true;
    return true;
  }

  void unlock() {
    const std::lock_guard lock(mutex_);
    taken_ = false;
    opened_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool taken_ = false;
};

}  // namespace zero::nccl
