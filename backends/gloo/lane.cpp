#include "backends/gloo/lane.h"

#include <algorithm>
#include <string>

#include "libzero/base/error.h"

namespace zero::gloo_backend {
namespace {

// Gloo's buffers begin somewhere, have a size, and take offsets: this one is all memory, and an
// address is its own offset.
constexpr std::size_t kAllMemory = std::numeric_limits<std::size_t>::max();

/// Takes up to `most` that have completed off `outstanding`, and returns how many that were.
template <typename Wait>
std::int64_t settle(std::int64_t& outstanding, std::int64_t most, const Wait& wait) noexcept {
  std::int64_t completed = 0;
  // A wait that was called off, or whose connection closed, says so once, whatever has completed.
  // The next one does not unless nothing has.
  for (int refusals = 0; outstanding > 0 && completed < most && refusals < 3;) {
    try {
      if (wait()) {
        --outstanding;
        ++completed;
        continue;
      }
    } catch (const std::exception&) {
    }
    ++refusals;
  }
  return completed;
}

}  // namespace

Lane::Lane(Links& links, Fate& fate)
    : fate_(fate), buffer_(links.context().createUnboundBuffer(nullptr, kAllMemory)) {
  fate_.enroll(buffer_.get());
}

Lane::Lane(Links& links, Fate& fate, int peer, const void* data, std::size_t bytes)
    : Lane(links, fate) {
  aim(peer, data, bytes);
}

Lane::~Lane() {
  fate_.dismiss(buffer_.get());
}

void Lane::aim(int peer, const void* data, std::size_t bytes) {
  peer_ = peer;
  data_ = reinterpret_cast<std::uintptr_t>(data);
  bytes_ = bytes;
  received_ = 0;
}

std::size_t Lane::place_of(std::size_t offset, std::size_t bytes) const {
  ZERO_REQUIRE(offset <= bytes_ && bytes <= bytes_ - offset,
               "a message must lie in the memory of its lane; report this as a bug: offset " +
                   std::to_string(offset) + ", bytes " + std::to_string(bytes) + " of " +
                   std::to_string(bytes_));
  return data_ + offset;
}

void Lane::send(std::uint64_t slot, std::size_t offset, std::size_t bytes) {
  buffer_->send(peer_, slot, place_of(offset, bytes), bytes);
  ++sends_;
}

void Lane::receive(std::uint64_t slot, std::size_t offset, std::size_t bytes) {
  buffer_->recv(peer_, slot, place_of(offset, bytes), bytes);
  ++receives_;
}

void Lane::wait_sent() {
  if (!buffer_->waitSend(nullptr, kForever)) throw Interrupted{};
  --sends_;
}

void Lane::wait_received() {
  if (!buffer_->waitRecv(nullptr, kForever)) throw Interrupted{};
  --receives_;
  ++received_;
}

void Lane::wait_all() {
  while (receives_ > 0) wait_received();
  while (sends_ > 0) wait_sent();
}

void Lane::settle(Clock::time_point deadline, std::int64_t enough) noexcept {
  received_ += gloo_backend::settle(receives_, enough - received_, [&] {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    return buffer_->waitRecv(nullptr, std::max(left, std::chrono::milliseconds(0)));
  });
  gloo_backend::settle(sends_, std::int64_t{sends_},
                       [&] { return buffer_->waitSend(nullptr, std::chrono::milliseconds(0)); });
}

}  // namespace zero::gloo_backend
