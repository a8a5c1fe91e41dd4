#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <string>

#include "backends/shm/board.h"

namespace zero::shm {

/// Thrown inside this backend where a wait was in vain.
struct Stopped {
  bool expired = false;  ///< The deadline has passed; otherwise the reason is in Fate.
};

/// The one failure path: death, silence and abort all end here, on whatever rank they are noticed.
/// The first reason stands, for all ranks. Any thread.
class Fate {
 public:
  explicit Fate(Board& board) : board_(board) {}

  /// Keeps the reason, unless an earlier one stands, and wakes all ranks.
  void fail(const std::string& reason) noexcept;
  /// As fail(); also stops what this rank has in flight, even if it could go on without the others.
  void abort(const std::string& reason) noexcept;

  bool failed() const { return board_.front().dead.load(std::memory_order_acquire) != 0; }
  std::optional<std::string> reason() const;

  /// Throws Stopped after abort() on this rank. Cheap: for use between pieces of work.
  void check_not_aborted() const {
    if (aborted_.load(std::memory_order_relaxed)) throw Stopped{};
  }

 private:
  Board& board_;
  std::mutex mutex_;
  bool written_ = false;  // this rank's reason
  std::atomic<bool> aborted_ = false;
};

}  // namespace zero::shm
