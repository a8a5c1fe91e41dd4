#pragma once

/// Where the ranks of the `threads` backend meet. Private to that backend.
///
/// One call goes like this. Every rank arrives at the round with its header and its buffers. The
/// last one compares the headers and opens the round: from here on ranks read (and, in all_reduce,
/// write) each other's buffers without locks, in disjoint pieces. Then every rank departs, and
/// leaves only when all have departed, because until then somebody may be reading its memory. A
/// failure before the round opens ends it for everybody and nobody's memory is touched; a failure
/// after it makes ranks stop at the next piece and depart early.

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "libzero/collective/call_header.h"

namespace zero::threads {

class Hub;

struct Seat {
  CallHeader call;
  const void* in = nullptr;
  void* out = nullptr;
  bool arrived = false;
  bool departed = false;
};

/// A rank's place in a communicator; hub is null where split() gave it none.
struct Membership {
  std::shared_ptr<Hub> hub;
  int rank = 0;
};

struct Round {
  std::vector<Seat> seats;
  int arrived = 0;
  int departed = 0;
  bool open = false;
  bool cut_short = false;
  std::string mismatch;
  std::vector<Membership> children;  ///< By the parent's rank; after split() only.
};

/// All functions: any thread.
class Hub {
 public:
  Hub(int size, std::chrono::milliseconds timeout);

  int size() const noexcept { return size_; }

  /// Waits until every rank is there with the same call. Throws ContractError on a mismatch,
  /// CommError otherwise.
  /// The round is the caller's to use until depart().
  Round& arrive(int rank, const CallHeader& call, const void* in, void* out);

  /// Waits until every rank of the open round is done. `whole`: this rank did all of its part.
  /// Throws CommError if one did not.
  void depart(int rank, Round& round, bool whole);

  /// The first reason stands; everybody who waits wakes up.
  void fail(const std::string& reason) noexcept;

  /// Cheap: for use between pieces of work.
  bool failed() const noexcept { return failed_.load(std::memory_order_acquire); }

  /// Throws CommError if the hub has failed.
  void check_alive(int rank, const CallHeader& call) const;

 private:
  Round& gathering();
  void open(Round& round);
  void fail_locked(const std::string& reason);
  [[noreturn]] void throw_failure(int rank, const CallHeader& call) const;

  const int size_;
  const std::chrono::milliseconds timeout_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // By turns: whoever arrives at a round has left the one before the last, and so have all others.
  std::array<Round, 2> rounds_;
  std::size_t turn_ = 0;           // rounds that have opened: the next one gathers now
  std::vector<CallHeader> calls_;  // of the ranks of a round that opens
  std::atomic<bool> failed_ = false;
  std::string reason_;
};

/// Forms the children of split() from what the ranks asked for; a pure function but for the new
/// hubs. `in` of the seats is the patience that each asked for; `timeout` is the parent's.
std::vector<Membership> split_seats(const std::vector<Seat>& seats,
                                    std::chrono::milliseconds timeout);

}  // namespace zero::threads
