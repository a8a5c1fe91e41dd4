#include "backends/nccl/fate.h"

#include <utility>

namespace zero::nccl {

std::string Fate::reason() const {
  const std::lock_guard lock(mutex_);
  return reason_;
}

void Fate::fail(const std::string& reason) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (failed()) return;
    reason_ = reason;
    failed_.store(true, std::memory_order_release);
  }
  changed_.notify_all();
  const std::lock_guard lock(telling_);
  for (const Listener& listener : listeners_) listener(reason);
}

bool Fate::sleep(std::chrono::microseconds time) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, time, [&] { return failed(); });
}

void Fate::tell(Listener listener) {
  const std::lock_guard lock(telling_);
  listeners_.push_back(std::move(listener));
}

void Fate::forget_listeners() noexcept {
  const std::lock_guard lock(telling_);
  listeners_.clear();
}

}  // namespace zero::nccl
