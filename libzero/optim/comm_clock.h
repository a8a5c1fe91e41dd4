#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "libzero/optim/observer.h"

namespace zero {

/// Adds up the time that an optimizer spends inside collectives, and knows who else wants to hear
/// of it. Any thread.
class CommClock {
 public:
  /// `observer` may be null; otherwise it must outlive this.
  explicit CommClock(Observer* observer) : observer_(observer) {}

  Observer* observer() const noexcept { return observer_; }

  /// Runs `call` and returns what it returns.
  template <typename Call>
  auto timed(Call call) {
    const Running running(nanoseconds_);
    return call();
  }

  /// Since the last call of take().
  Nanoseconds take() noexcept { return nanoseconds_.exchange(0); }

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

  Observer* const observer_;
  std::atomic<std::int64_t> nanoseconds_{0};
};

}  // namespace zero
