#include "backends/shm/waiter.h"

#include <algorithm>

#include "backends/shm/pause.h"

namespace zero::shm {
namespace {

constexpr std::chrono::microseconds kSpin{5};
constexpr int kLooksBetweenClocks = 16;

}  // namespace

Waiter::Waiter(Board& board, Fate& fate, std::chrono::milliseconds timeout, bool may_spin)
    : board_(board), fate_(fate), timeout_(timeout), may_spin_(may_spin) {}

void Waiter::await(int peer, Progress kind, std::uint64_t value) {
  if (board_.progress(peer, kind) >= value) return;
  if (may_spin_ && spin(peer, kind, value)) return;
  sleep(peer, kind, value);
}

void Waiter::await_all(Progress kind, std::uint64_t value) {
  for (int step = 1; step < board_.size(); ++step) {
    await((board_.rank() + step) % board_.size(), kind, value);
  }
}

bool Waiter::spin(int peer, Progress kind, std::uint64_t value) const {
  const auto until = Clock::now() + kSpin;
  do {
    for (int look = 0; look < kLooksBetweenClocks; ++look) {
      if (board_.progress(peer, kind) >= value) return true;
      pause_core();
    }
  } while (Clock::now() < until);
  return false;
}

void Waiter::sleep(int peer, Progress kind, std::uint64_t value) {
  Seat& seat = board_.own_seat();
  awaited_ = peer;
  seat.waiting_kind.store(static_cast<std::uint32_t>(kind));
  seat.waiting_value.store(value);
  for (;;) {
    const std::uint32_t bell = seat.bell.load();
    seat.waiting_for.store(static_cast<std::uint32_t>(peer) + 1);
    // Looked at in this order, a rank that came and then left has come.
    const bool failed = fate_.failed();
    if (board_.progress(peer, kind) >= value) break;
    // What this rank waits for stays on the board: others may be looking for who is silent.
    if (failed) throw Stopped{};
    if (Clock::now() >= deadline_) throw Stopped{true};
    futex_wait(seat.bell, bell, deadline_);
  }
  seat.waiting_for.store(0);
}

namespace {

/// The rank that `rank` waits for, or -1 if it has no reason to wait.
int awaited_by(const Board& board, int rank) {
  const Seat& seat = board.seat(rank);
  const std::uint32_t peer = seat.waiting_for.load();
  const std::uint32_t kind = seat.waiting_kind.load();
  if (peer == 0 || peer > static_cast<std::uint32_t>(board.size()) || kind > 2) return -1;
  const int awaited = static_cast<int>(peer) - 1;
  const bool has_come =
      board.progress(awaited, static_cast<Progress>(kind)) >= seat.waiting_value.load();
  return has_come ? -1 : awaited;
}

}  // namespace

std::vector<int> find_silent(const Board& board, std::vector<int> suspects) {
  std::vector<bool> seen(static_cast<std::size_t>(board.size()), false);
  seen[static_cast<std::size_t>(board.rank())] = true;  // this one waits
  std::vector<int> silent;
  std::vector<int> open = suspects;
  while (!open.empty()) {
    const int rank = open.back();
    open.pop_back();
    if (seen[static_cast<std::size_t>(rank)]) continue;
    seen[static_cast<std::size_t>(rank)] = true;
    const int awaited = awaited_by(board, rank);
    if (awaited < 0) {
      silent.push_back(rank);
    } else {
      open.push_back(awaited);
    }
  }
  if (silent.empty()) return suspects;
  std::sort(silent.begin(), silent.end());
  return silent;
}

}  // namespace zero::shm
