#include "backends/shm/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace zero::shm {
namespace {

static_assert(std::atomic<std::uint32_t>::is_always_lock_free &&
              sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

/// steady_clock is the clock that FUTEX_WAIT_BITSET takes absolute times of: CLOCK_MONOTONIC.
timespec as_timespec(Clock::time_point time) {
  const auto since = time.time_since_epoch();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since);
  const auto rest = std::chrono::duration_cast<std::chrono::nanoseconds>(since - seconds);
  return {static_cast<time_t>(seconds.count()), static_cast<long>(rest.count())};
}

}  // namespace

// Both without FUTEX_PRIVATE_FLAG: the sleeper may be in another process.

void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                Clock::time_point deadline) noexcept {
  const timespec until = as_timespec(deadline);
  ::syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, expected, &until, nullptr, FUTEX_BITSET_MATCH_ANY);
}

void futex_wake(const std::atomic<std::uint32_t>& word) noexcept {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace zero::shm
