#include "libzero/train/stop_signals.h"

#include <atomic>
#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "libzero/base/error.h"

namespace zero {
namespace {

// A signal handler has nowhere else to put what it hears.
std::atomic<int> first_signal = 0;
std::atomic<bool> is_listening = false;
static_assert(std::atomic<int>::is_always_lock_free);

extern "C" void remember(int signal) {
  int none = 0;
  first_signal.compare_exchange_strong(none, signal);
}

}  // namespace

struct StopSignals::Impl {
  Impl() {
    ZERO_REQUIRE(!is_listening.exchange(true),
                 "stop signals: another StopSignals lives in this process; use that one, or let it "
                 "go first");
    first_signal = 0;
  }
  ~Impl() {
    for (auto each = before.rbegin(); each != before.rend(); ++each)
      ::sigaction(each->first, &each->second, nullptr);
    is_listening = false;
  }

  void listen(int signal) {
    struct sigaction action = {};
    action.sa_handler = remember;
    action.sa_flags = SA_RESTART;  // a training loop's reads and writes are not the signal's
    sigemptyset(&action.sa_mask);
    struct sigaction found = {};
    ZERO_REQUIRE(::sigaction(signal, &action, &found) == 0,
                 "stop signals: this signal cannot be handled; use SIGTERM or SIGUSR1: " +
                     std::to_string(signal));
    before.emplace_back(signal, found);
  }

  std::vector<std::pair<int, struct sigaction>> before;
};

StopSignals::StopSignals() : StopSignals({SIGTERM, SIGUSR1}) {}

StopSignals::StopSignals(std::initializer_list<int> signals) : impl_(std::make_unique<Impl>()) {
  for (const int signal : signals) impl_->listen(signal);
}

StopSignals::~StopSignals() = default;

int StopSignals::received() const noexcept {
  return first_signal.load();
}

}  // namespace zero
