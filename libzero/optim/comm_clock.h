#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace zero {

/// Adds up the time that an optimizer spends inside collectives. Any thread.
class CommClock {
 public:
  /// Runs `call` and returns what it returns.
  template <typename Call>
  auto timed(Call call) {
    const Running running(nanoseconds_);
    return call();
  }

  /// Seconds since the last call of take().
  double take() noexcept { return 1e-9 * static_cast<double>(nanoseconds_.exchange(0)); }

 private:
  using Clock = std::chrono::steady_clock;

  class Running {
   public:
    explicit Running(std::atomic<std::int64_t>& total) : total_(total) {}
    ~Running() {
      total_ += std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start_).count();
    }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

   private:
    std::atomic<std::int64_t>& total_;
    const Clock::time_point start_ = Clock::now();
  };

  std::atomic<std::int64_t> nanoseconds_{0};
};

}  // namespace zero
