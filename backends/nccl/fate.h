#pragma once

/// Why a communicator is dead, once it is.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace zero::nccl {

/// All functions: any thread.
class Fate {
 public:
  using Listener = std::function<void(const std::string& reason)>;

  bool failed() const noexcept { return failed_.load(std::memory_order_acquire); }

  /// "" while nothing has failed.
  std::string reason() const;

  /// The first reason stands. Whoever brings it calls the listeners, who must neither throw nor
  /// block; then everybody who sleeps wakes up.
  void fail(const std::string& reason) noexcept;

  /// Sleeps; true as soon as there is a failure.
  bool sleep(std::chrono::microseconds time) const;

  /// To be called before there is anything that can fail.
  void tell(Listener listener);

  /// Afterwards no listener is called, or runs.
  void forget_listeners() noexcept;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::string reason_;
  std::atomic<bool> failed_ = false;
  std::mutex telling_;  // held while listeners run
  std::vector<Listener> listeners_;
};

}  // namespace zero::nccl
