#include "backends/gloo/lane.h"

#include <algorithm>

namespace zero::gloo_backend {
namespace {

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

Lane::Lane(Links& links, Fate& fate, int peer, void* data, std::size_t bytes)
    : fate_(fate), peer_(peer), buffer_(links.context().createUnboundBuffer(data, bytes)) {
  fate_.enroll(buffer_.get());
}

Lane::Lane(Links& links, Fate& fate, int peer, const void* data, std::size_t bytes)
    : Lane(links, fate, peer, const_cast<void*>(data), bytes) {}

Lane::~Lane() {
  fate_.dismiss(buffer_.get());
}

void Lane::send(std::uint64_t slot, std::size_t offset, std::size_t bytes) {
  buffer_->send(peer_, slot, offset, bytes);
  ++sends_;
}

void Lane::receive(std::uint64_t slot, std::size_t offset, std::size_t bytes) {
  buffer_->recv(peer_, slot, offset, bytes);
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
