#include "backends/shm/fate.h"

#include <algorithm>
#include <cstring>

namespace zero::shm {

void Fate::fail(const std::string& reason) noexcept {
  const std::lock_guard lock(mutex_);
  if (failed() || written_) return;
  written_ = true;
  Seat& seat = board_.own_seat();
  const std::size_t length = std::min(reason.size(), Seat::kReasonBytes - 1);
  std::memcpy(seat.reason, reason.data(), length);
  seat.reason[length] = '\0';
  // The text is there before anybody is told where to look for it: a rank that dies in between has
  // told nobody, and another's reason will stand.
  std::uint32_t nobody = 0;
  board_.front().dead.compare_exchange_strong(nobody,
                                              static_cast<std::uint32_t>(board_.rank()) + 1);
  board_.ring_all();
}

void Fate::abort(const std::string& reason) noexcept {
  fail(reason);
  aborted_.store(true, std::memory_order_relaxed);
}

std::optional<std::string> Fate::reason() const {
  const std::uint32_t dead = board_.front().dead.load(std::memory_order_acquire);
  if (dead == 0) return std::nullopt;
  if (dead > static_cast<std::uint32_t>(board_.size())) {
    return "the memory that the ranks share was overwritten";
  }
  const char* text = board_.seat(static_cast<int>(dead) - 1).reason;
  return std::string(text, ::strnlen(text, Seat::kReasonBytes));
}

}  // namespace zero::shm
