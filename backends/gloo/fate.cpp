#include "backends/gloo/fate.h"

namespace zero::gloo_backend {

void Fate::enroll(gloo::transport::UnboundBuffer* buffer) {
  const std::lock_guard lock(mutex_);
  if (interrupted_) throw Interrupted{};
  in_flight_.insert(buffer);
}

void Fate::require_calm() const {
  const std::lock_guard lock(mutex_);
  if (interrupted_) throw Interrupted{};
}

void Fate::dismiss(gloo::transport::UnboundBuffer* buffer) {
  const std::lock_guard lock(mutex_);
  in_flight_.erase(buffer);
}

bool Fate::fail(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (reason_) return false;
  reason_ = reason;
  known_.notify_all();
  call_off();
  return true;
}

void Fate::interrupt() {
  const std::lock_guard lock(mutex_);
  call_off();
}

void Fate::call_off() {
  interrupted_ = true;
  for (auto* buffer : in_flight_) {
    buffer->abortWaitRecv();
    buffer->abortWaitSend();
  }
}

std::optional<std::string> Fate::reason() const {
  const std::lock_guard lock(mutex_);
  return reason_;
}

std::optional<std::string> Fate::await_reason(std::chrono::milliseconds grace) const {
  std::unique_lock lock(mutex_);
  known_.wait_for(lock, grace, [&] { return reason_.has_value(); });
  return reason_;
}

}  // namespace zero::gloo_backend
