#pragma once

#include <chrono>
#include <vector>

#include "backends/shm/board.h"
#include "backends/shm/fate.h"
#include "backends/shm/futex.h"

namespace zero::shm {

/// Waits for the other ranks: looks for a few microseconds, where there is a core for every rank,
/// then sleeps. One thread.
class Waiter {
 public:
  Waiter(Board& board, Fate& fate, std::chrono::milliseconds timeout, bool may_spin);

  /// A call begins: all its waits together may last as long as the timeout.
  void start() { deadline_ = Clock::now() + timeout_; }

  /// Returns once `peer` has come that far, even if the communicator is dead by then. Throws
  /// Stopped if it is dead before, or at the deadline.
  void await(int peer, Progress kind, std::uint64_t value);
  /// The same for all peers, in ring order.
  void await_all(Progress kind, std::uint64_t value);

  /// For whom this rank waited last, or waits.
  int awaited() const { return awaited_; }

 private:
  bool spin(int peer, Progress kind, std::uint64_t value) const;
  void sleep(int peer, Progress kind, std::uint64_t value);

  Board& board_;
  Fate& fate_;
  const std::chrono::milliseconds timeout_;
  const bool may_spin_;
  Clock::time_point deadline_;
  int awaited_ = 0;
};

/// Who keeps the others waiting: follows from each of `suspects` the chain of those that really
/// wait for another rank to those that do not. Ascending ranks, `rank`s own not among them;
/// `suspects` themselves if all wait. Call it before this rank says that it waits no more.
std::vector<int> find_silent(const Board& board, std::vector<int> suspects);

}  // namespace zero::shm
