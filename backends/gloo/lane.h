#pragma once

#include <gloo/transport/unbound_buffer.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>

#include "backends/gloo/fate.h"
#include "backends/gloo/links.h"

namespace zero::gloo_backend {

/// Memory through which this rank talks with one peer. Messages of one slot arrive in the order
/// sent; receives should be posted before the peer sends. The memory is Gloo's until every wait
/// returned or the Lane is gone. One thread.
///
/// A lane can be aimed at one peer's memory after another's, because what it registers with Gloo,
/// which takes memory, is no memory in particular.
class Lane {
 public:
  using Clock = std::chrono::steady_clock;

  /// Throw Interrupted if things have already gone wrong.
  Lane(Links& links, Fate& fate);
  Lane(Links& links, Fate& fate, int peer, const void* data, std::size_t bytes);
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  /// Nothing must be outstanding.
  void aim(int peer, const void* data, std::size_t bytes);

  int peer() const { return peer_; }
  /// Throw ContractError unless [offset, offset + bytes) is the lane's.
  void send(std::uint64_t slot, std::size_t offset, std::size_t bytes);
  void receive(std::uint64_t slot, std::size_t offset, std::size_t bytes);

  /// Wait for the oldest send or receive that was not waited for. Throw Interrupted, or what Gloo
  /// throws.
  void wait_sent();
  void wait_received();
  void wait_all();

  bool waits() const { return sends_ > 0 || receives_ > 0; }
  std::int64_t receives_outstanding() const { return receives_; }
  std::int64_t received() const { return received_; }

  /// After an interruption: counts what has completed unnoticed, giving receives until `deadline`
  /// to arrive, and no longer than until `enough` have. The connections are unusable afterwards.
  void settle(Clock::time_point deadline = Clock::now(),
              std::int64_t enough = std::numeric_limits<std::int64_t>::max()) noexcept;

 private:
  std::size_t place_of(std::size_t offset, std::size_t bytes) const;

  Fate& fate_;
  int peer_ = 0;
  std::uintptr_t data_ = 0;
  std::size_t bytes_ = 0;
  std::unique_ptr<gloo::transport::UnboundBuffer> buffer_;
  std::int64_t sends_ = 0;
  std::int64_t receives_ = 0;
  std::int64_t received_ = 0;
};

}  // namespace zero::gloo_backend
