#pragma once

#include <span>
#include <vector>

#include "backends/shm/board.h"
#include "backends/shm/waiter.h"
#include "libzero/collective/call_header.h"

namespace zero::shm {

/// The exchange of headers that opens every call: each rank says what it is about to do, and learns
/// it of all others. Payload of up to Message::kInlineBytes rides along. One thread.
class RollCall {
 public:
  RollCall(Board& board, Waiter& waiter);

  /// Returns when every rank's header for this call has come. Throws Stopped.
  void exchange(const CallHeader& call, std::span<const std::byte> payload);

  /// Of the latest exchange, in rank order.
  const std::vector<CallHeader>& headers() const { return headers_; }
  /// What `rank` sent along with the latest exchange: valid until this rank's next one.
  const std::byte* payload(int rank) const;

  /// Who has not come to the latest exchange.
  std::vector<int> missing() const;

 private:
  // Two messages a rank are enough: a rank comes to exchange n + 1 when it has read the messages of
  // exchange n, and nobody gets past n + 1, to write the next but one, before all have come to it.
  Message& message(int rank) const { return board_.seat(rank).messages[exchange_ % 2]; }

  Board& board_;
  Waiter& waiter_;
  std::uint64_t exchange_ = 0;  // begun so far
  std::vector<CallHeader> headers_;
};

}  // namespace zero::shm
