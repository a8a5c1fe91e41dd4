#pragma once

#include <array>
#include <chrono>
#include <deque>
#include <span>
#include <vector>

#include "backends/gloo/lane.h"
#include "libzero/collective/call_header.h"

namespace zero::gloo_backend {

/// The exchange of headers that opens every call: each rank says what it is about to do, and learns
/// it of all others. Receives for the next call are posted one call ahead, so that a header needs
/// half a round trip. Payload of up to kInlineBytes rides along. One thread.
class RollCall {
 public:
  static constexpr std::size_t kInlineBytes = 1024 - sizeof(CallHeader);

  RollCall(Links* links, Fate& fate, int rank, int size);

  /// Returns when every rank's header for this call has come. Throws Interrupted, or what Gloo
  /// throws.
  void exchange(const CallHeader& call, std::span<const std::byte> payload, bool expect_more);

  /// Of the latest exchange, in rank order.
  const std::vector<CallHeader>& headers() const { return headers_; }
  /// What `rank` sent along with the latest exchange: valid until the next one.
  const void* payload(int rank) const;

  /// After an interrupted exchange: who did not answer, also not within `grace`.
  std::vector<int> missing(std::chrono::milliseconds grace);

  /// After an interrupted exchange: true if it is complete all the same, or soon.
  bool completes_within(std::chrono::milliseconds grace);

 private:
  struct Message {
    CallHeader header;
    std::byte payload[kInlineBytes];
  };
  static_assert(sizeof(Message) == 1024, "the header travels as bytes: no padding");
  /// Messages of even calls lie in the first half, those of odd ones in the second.
  using Halves = std::array<Message, 2>;

  void post_receive(Lane& lane, std::uint64_t exchange);
  void take_headers();

  const int rank_;
  std::uint64_t exchange_ = 0;    // begun so far
  bool answered_ = false;         // the latest: the own header is on its way to every rank
  std::vector<Halves> messages_;  // by rank; the own one is what is sent
  std::vector<CallHeader> headers_;
  std::deque<Lane> receives_;
  std::deque<Lane> sends_;
};

}  // namespace zero::gloo_backend
