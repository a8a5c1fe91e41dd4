#include "backends/shm/roll_call.h"

#include <cstring>

namespace zero::shm {

RollCall::RollCall(Board& board, Waiter& waiter)
    : board_(board), waiter_(waiter), headers_(static_cast<std::size_t>(board.size())) {}

void RollCall::exchange(const CallHeader& call, std::span<const std::byte> payload) {
  ++exchange_;
  Message& mine = message(board_.rank());
  mine.header = call;
  if (!payload.empty()) std::memcpy(mine.payload, payload.data(), payload.size());
  board_.advance(Progress::kArrived, exchange_);
  waiter_.await_all(Progress::kArrived, exchange_);
  for (int rank = 0; rank < board_.size(); ++rank) {
    headers_[static_cast<std::size_t>(rank)] = message(rank).header;
  }
}

const std::byte* RollCall::payload(int rank) const {
  return message(rank).payload;
}

std::vector<int> RollCall::missing() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < board_.size(); ++rank) {
    if (board_.progress(rank, Progress::kArrived) < exchange_) ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace zero::shm
