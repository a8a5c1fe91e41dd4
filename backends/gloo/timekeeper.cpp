#include "backends/gloo/timekeeper.h"

#include "libzero/base/quiet_thread.h"

namespace zero::gloo_backend {

Timekeeper::Timekeeper(std::chrono::milliseconds timeout, std::function<void()> on_expiry)
    : timeout_(timeout), on_expiry_(std::move(on_expiry)) {
  thread_ = start_quiet_thread([this] { watch(); });
}

Timekeeper::~Timekeeper() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  ends_.notify_all();
  thread_.join();
}

void Timekeeper::start() {
  const std::lock_guard lock(mutex_);
  deadline_ = Clock::now() + timeout_;
  expired_ = false;
}

bool Timekeeper::stop() {
  const std::lock_guard lock(mutex_);
  deadline_.reset();
  return expired_;
}

void Timekeeper::watch() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    // Deadlines only move forward, so a call that starts during this sleep ends no earlier than it:
    // start() need not wake anybody.
    const auto until = deadline_.value_or(Clock::now() + timeout_);
    if (ends_.wait_until(lock, until, [&] { return ending_; })) return;
    if (deadline_ && Clock::now() >= *deadline_) {
      deadline_.reset();
      expired_ = true;
      on_expiry_();
    }
  }
}

}  // namespace zero::gloo_backend
