#include "backends/gloo/roll_call.h"

#include <cstring>

#include "backends/gloo/slots.h"

namespace zero::gloo_backend {

RollCall::RollCall(Links* links, Fate& fate, int rank, int size)
    : rank_(rank),
      messages_(static_cast<std::size_t>(size)),
      headers_(static_cast<std::size_t>(size)) {
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    receives_.emplace_back(*links, fate, peer, messages_[static_cast<std::size_t>(peer)].data(),
                           sizeof(Halves));
    sends_.emplace_back(*links, fate, peer, messages_[static_cast<std::size_t>(rank)].data(),
                        sizeof(Halves));
  }
  post_receives(0);
}

void RollCall::post_receives(std::uint64_t exchange) {
  for (Lane& lane : receives_)
    lane.receive(kHeaderSlot, exchange % 2 * sizeof(Message), sizeof(Message));
}

void RollCall::exchange(const CallHeader& call, std::span<const std::byte> payload,
                        bool expect_more) {
  const std::size_t half = exchange_ % 2;
  Message& mine = messages_[static_cast<std::size_t>(rank_)][half];
  mine.header = call;
  if (!payload.empty()) std::memcpy(mine.payload, payload.data(), payload.size());
  if (expect_more) post_receives(exchange_ + 1);
  ++exchange_;
  const std::size_t bytes = sizeof(CallHeader) + payload.size();
  for (Lane& lane : sends_) lane.send(kHeaderSlot, half * sizeof(Message), bytes);
  for (Lane& lane : receives_) lane.wait_received();
  for (Lane& lane : sends_) lane.wait_sent();
  for (std::size_t rank = 0; rank < headers_.size(); ++rank)
    headers_[rank] = messages_[rank][half].header;
}

const void* RollCall::payload(int rank) const {
  return messages_[static_cast<std::size_t>(rank)][(exchange_ + 1) % 2].payload;
}

std::vector<int> RollCall::missing() {
  std::vector<int> ranks;
  for (Lane& lane : receives_) {
    lane.settle();
    if (lane.received() < static_cast<std::int64_t>(exchange_)) ranks.push_back(lane.peer());
  }
  return ranks;
}

}  // namespace zero::gloo_backend
