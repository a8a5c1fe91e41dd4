#pragma once

/// What a rank did: counters for each operation and the last calls, for metrics and for the text of
/// errors.

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "libzero/collective/call_header.h"

namespace zero {

struct OperationCounters {
  std::int64_t calls = 0;  ///< That the backend accepted.
  std::int64_t elements =
      0;  ///< Of the whole buffer: size() * slice for reduce_scatter and all_gather.
  std::int64_t bytes = 0;  ///< Payload that this rank sends by definition: payload_bytes().
  double seconds = 0.0;    ///< That callers spent inside the call and in Work::wait().
};

// clang-format off
/// Payload bytes that `rank` of `size` ranks must send, whatever the backend's algorithm; n is count
/// times the bytes of an element, N is size:
///
///   reduce_scatter, all_gather    (N - 1) * n          n: one slice, so (N - 1) / N of the whole
///   all_reduce                    2 * (N - 1) * n / N  a reduce_scatter and an all_gather
///   broadcast                     (N - 1) * n          on the root, 0 elsewhere
///   barrier, split, shutdown      0
// clang-format on
std::int64_t payload_bytes(const CallHeader& call, int rank, int size);

/// Any thread.
class CallLog {
 public:
  static constexpr std::size_t kKept = 64;  ///< Calls that history() remembers.

  enum class Outcome { kIssued, kOk, kRefused, kFailed };

  OperationCounters of(Operation operation) const;
  OperationCounters total() const;

  /// The last calls, oldest first: "#38 all_gather of 12 int64 [step vote] ok". Calls of subgroups
  /// carry the group's name.
  std::vector<std::string> history() const;

  /// The end of history() in one line, for an error's text.
  std::string last_calls(std::size_t most = 6) const;

  /// Puts a call into the history and returns its ticket. `group`: "" or a subgroup's name.
  std::uint64_t begin(const std::string& group, const CallHeader& call);

  /// Adds an accepted call of `rank` of `size` ranks to the counters.
  void count(const CallHeader& call, int rank, int size);

  /// Notes how the call ended, unless it has been forgotten already.
  void end(std::uint64_t ticket, Outcome outcome);

  void add_seconds(Operation operation, double seconds);

 private:
  struct Entry {
    std::uint64_t ticket = 0;  ///< 0: unused
    std::string group;
    CallHeader call;  ///< Words are made of it when somebody asks.
    Outcome outcome = Outcome::kIssued;
  };

  std::vector<std::string> history_locked() const;
  static std::size_t index_of(Operation operation);

  mutable std::mutex mutex_;
  std::array<OperationCounters, 8> counters_;  // by Operation
  std::array<Entry, kKept> entries_;           // a ring: ticket t lies at t % kKept
  std::uint64_t tickets_ = 0;
};

}  // namespace zero
