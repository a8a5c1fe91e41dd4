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
  for (Lane& lane : receives_) first_receives(lane.peer(), [&] { post_receive(lane, 0); });
}

void RollCall::post_receive(Lane& lane, std::uint64_t exchange) {
  lane.receive(kHeaderSlot, exchange % 2 * sizeof(Message), sizeof(Message));
}

void RollCall::exchange(const CallHeader& call, std::span<const std::byte> payload,
                        bool expect_more) {
  const std::size_t half = exchange_ % 2;
  Message& mine = messages_[static_cast<std::size_t>(rank_)][half];
  mine.header = call;
  if (!payload.empty()) std::memcpy(mine.payload, payload.data(), payload.size());
  answered_ = false;
  ++exchange_;
  for (Lane& lane : receives_) {
    if (expect_more) post_receive(lane, exchange_);
  }
  const std::size_t bytes = sizeof(CallHeader) + payload.size();
  for (Lane& lane : sends_) lane.send(kHeaderSlot, half * sizeof(Message), bytes);
  answered_ = true;
  for (Lane& lane : receives_) lane.wait_received();
  for (Lane& lane : sends_) lane.wait_sent();
  take_headers();
}

void RollCall::take_headers() {
  for (std::size_t rank = 0; rank < headers_.size(); ++rank) {
    headers_[rank] = messages_[rank][(exchange_ + 1) % 2].header;
  }
}

const void* RollCall::payload(int rank) const {
  return messages_[static_cast<std::size_t>(rank)][(exchange_ + 1) % 2].payload;
}

bool RollCall::completes_within(std::chrono::milliseconds grace) {
  return answered_ && missing(grace).empty();
}

std::vector<int> RollCall::missing(std::chrono::milliseconds grace) {
  const auto deadline = Lane::Clock::now() + grace;
  const auto enough = static_cast<std::int64_t>(exchange_);
  std::vector<int> ranks;
  for (Lane& lane : receives_) {
    lane.settle(deadline, enough);
    if (lane.received() < enough) ranks.push_back(lane.peer());
  }
  if (ranks.empty()) take_headers();
  return ranks;
}

}  // namespace zero::gloo_backend
