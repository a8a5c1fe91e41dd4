#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

namespace zero::gloo_backend {

/// Calls `on_expiry` from a thread of its own when a call takes longer than the timeout.
class Timekeeper {
 public:
  Timekeeper(std::chrono::milliseconds timeout, std::function<void()> on_expiry);
  ~Timekeeper();
  Timekeeper(const Timekeeper&) = delete;
  Timekeeper& operator=(const Timekeeper&) = delete;

  void start();
  /// True if the call took too long: on_expiry has run.
  bool stop();

 private:
  using Clock = std::chrono::steady_clock;
  void watch();

  const std::chrono::milliseconds timeout_;
  const std::function<void()> on_expiry_;
  std::mutex mutex_;
  std::condition_variable ends_;
  std::optional<Clock::time_point> deadline_;
  bool expired_ = false;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace zero::gloo_backend
