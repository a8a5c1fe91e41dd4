#include "libzero/optim/device_wait.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <string>
#include <thread>

#include "libzero/base/error.h"

namespace zero {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::microseconds kShortest(10);
constexpr std::chrono::microseconds kLongest(1000);
constexpr int kPartOfTheWait = 32;

/// False: the limit is over.
template <class Done>
bool poll(std::chrono::milliseconds limit, Done done) {
  const Clock::time_point start = Clock::now();
  while (!done()) {
    const Clock::duration waited = Clock::now() - start;
    if (std::chrono::duration_cast<std::chrono::milliseconds>(waited) >= limit)
      return done();  // this thread may have slept all the while
    std::this_thread::sleep_for(
        std::clamp<Clock::duration>(waited / kPartOfTheWait, kShortest, kLongest));
  }
  return true;
}

[[noreturn]] void throw_timeout(c10::Device device, std::chrono::milliseconds limit,
                                std::string_view what) {
  throw CommError(
      "device: it has not done in time what the host waits for; it hangs, or is slower than "
      "Options().device_timeout() allows: look into its driver's log, and start again from the "
      "last checkpoint: waited " +
      std::to_string(limit.count()) + " ms on " + device.str() + " for " + std::string(what));
}

}  // namespace

void wait_for(const c10::Event& event, std::chrono::milliseconds limit, std::string_view what) {
  if (poll(limit, [&] { return event.query(); })) return;
  throw_timeout({event.device_type(), event.device_index()}, limit, what);
}

void wait_for(const c10::Stream& stream, std::chrono::milliseconds limit, std::string_view what) {
  if (poll(limit, [&] { return stream.query(); })) return;
  throw_timeout(stream.device(), limit, what);
}

void wait_for(c10::Device device, std::chrono::milliseconds limit, std::string_view what) {
  if (device.is_cpu()) return;
  wait_for(c10::impl::VirtualGuardImpl(device.type()).getStream(device), limit, what);
}

bool comes_to_rest(const c10::Stream& stream, std::chrono::milliseconds limit) noexcept {
  try {
    return poll(limit, [&] { return stream.query(); });
  } catch (...) {  // a device that has failed does nothing any more
    return true;
  }
}

}  // namespace zero
