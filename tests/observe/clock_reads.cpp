#include "tests/observe/clock_reads.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

namespace {

std::atomic<std::int64_t> reads{0};

}  // namespace

extern "C" __attribute__((visibility("default"))) int clock_gettime(clockid_t clock,
                                                                    timespec* now) noexcept {
  reads.fetch_add(1, std::memory_order_relaxed);
  return static_cast<int>(::syscall(SYS_clock_gettime, clock, now));
}

namespace zero::testing {

std::int64_t clock_reads() noexcept {
  return reads.load();
}

}  // namespace zero::testing
