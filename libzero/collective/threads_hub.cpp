#include "libzero/collective/threads_hub.h"

#include <algorithm>
#include <set>
#include <utility>

#include "libzero/base/error.h"

namespace zero::threads {
namespace {

std::vector<int> ranks_without(const std::vector<Seat>& seats, bool Seat::*mark) {
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < seats.size(); ++rank) {
    if (!(seats[rank].*mark)) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

std::chrono::milliseconds patience_of(const std::vector<Seat>& seats, int rank) {
  return *static_cast<const std::chrono::milliseconds*>(seats[static_cast<std::size_t>(rank)].in);
}

}  // namespace

Hub::Hub(int size, std::chrono::milliseconds timeout) : size_(size), timeout_(timeout) {
  for (Round& round : rounds_) round.seats.resize(static_cast<std::size_t>(size_));
  calls_.resize(static_cast<std::size_t>(size_));
}

/// The round that ranks arrive at now, emptied if this is its first one.
Round& Hub::gathering() {
  Round& round = rounds_[turn_ % rounds_.size()];
  if (round.arrived < size_) return round;
  std::fill(round.seats.begin(), round.seats.end(), Seat());
  round.arrived = round.departed = 0;
  round.open = round.cut_short = false;
  round.mismatch.clear();
  return round;
}

Round& Hub::arrive(int rank, const CallHeader& call, const void* in, void* out) {
  const auto deadline = std::chrono::steady_clock::now() + timeout_;
  std::unique_lock lock(mutex_);
  if (failed()) throw_failure(rank, call);
  Round& round = gathering();
  round.seats[static_cast<std::size_t>(rank)] = {call, in, out, true, false};
  if (++round.arrived == size_) open(round);
  const auto ended = [&] { return round.open || failed(); };
  if (!changed_.wait_until(lock, deadline, ended)) {
    fail_locked(
        describe_absence(call, ranks_without(round.seats, &Seat::arrived), timeout_.count()));
  }
  // An open round is carried through, whatever happened since: others already rely on this rank's
  // part.
  if (!round.open) throw_failure(rank, call);
  if (!round.mismatch.empty()) throw ContractError(round.mismatch);
  return round;
}

void Hub::open(Round& round) {
  for (std::size_t r = 0; r < calls_.size(); ++r) calls_[r] = round.seats[r].call;
  CallVerdict verdict = compare_calls(calls_);
  // Headers made in this process have the right magic: only a mismatch is possible.
  if (verdict.kind != CallVerdict::Kind::kMatch) {
    round.mismatch = std::move(verdict.text);
  } else if (calls_.front().operation == Operation::kSplit) {
    round.children = split_seats(round.seats, timeout_);
  }
  round.open = true;
  ++turn_;
  changed_.notify_all();
}

void Hub::depart(int rank, Round& round, bool whole) {
  const auto deadline = std::chrono::steady_clock::now() + timeout_;
  std::unique_lock lock(mutex_);
  Seat& seat = round.seats[static_cast<std::size_t>(rank)];
  seat.departed = true;
  if (!whole) round.cut_short = true;
  if (++round.departed == size_) {
    round.children.clear();
    changed_.notify_all();
  }
  // Not woken by a failure: as long as another rank works, this rank's memory is in use.
  const auto all_done = [&] { return round.departed == size_; };
  if (!changed_.wait_until(lock, deadline, all_done)) {
    round.cut_short = true;
    fail_locked(list_ranks(ranks_without(round.seats, &Seat::departed)) +
                " did not finish within " + std::to_string(timeout_.count()) +
                " ms (does an epilogue block?)");
  }
  if (round.cut_short) throw_failure(rank, seat.call);
}

void Hub::fail(const std::string& reason) noexcept {
  const std::lock_guard lock(mutex_);
  fail_locked(reason);
}

void Hub::fail_locked(const std::string& reason) {
  if (failed()) return;
  reason_ = reason;
  failed_.store(true, std::memory_order_release);
  changed_.notify_all();
}

void Hub::check_alive(int rank, const CallHeader& call) const {
  if (!failed()) return;
  const std::lock_guard lock(mutex_);
  throw_failure(rank, call);
}

void Hub::throw_failure(int rank, const CallHeader& call) const {
  throw CommError(describe_failure(call, rank, reason_));
}

std::vector<Membership> split_seats(const std::vector<Seat>& seats,
                                    std::chrono::milliseconds timeout) {
  std::vector<CallHeader> calls;
  std::set<int> colors;
  for (const Seat& seat : seats) {
    calls.push_back(seat.call);
    if (seat.call.color >= 0) colors.insert(seat.call.color);
  }
  std::vector<Membership> children(seats.size());
  for (const int color : colors) {
    const std::vector<int> ranks = members_of_color(calls, color);
    std::chrono::milliseconds longest = timeout;
    for (const int rank : ranks) longest = std::max(longest, patience_of(seats, rank));
    const auto hub = std::make_shared<Hub>(static_cast<int>(ranks.size()), longest);
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      children[static_cast<std::size_t>(ranks[i])] = {hub, static_cast<int>(i)};
    }
  }
  return children;
}

}  // namespace zero::threads
