#include "backends/gloo/lane.h"

#include <utility>

namespace zero::gloo_backend {
namespace {

/// Takes what has completed off `outstanding`, and returns how much that was.
template <typename Wait>
std::int64_t settle(std::int64_t& outstanding, const Wait& wait) noexcept {
  std::int64_t completed = 0;
  try {
    // A wait that was called off returns false once, whatever has completed; a wait of no time for
    // what has not throws.
    for (bool called_off = false; outstanding > 0;) {
      if (wait()) {
        --outstanding;
        ++completed;
      } else if (std::exchange(called_off, true)) {
        break;
      }
    }
  } catch (const std::exception&) {
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

void Lane::settle() noexcept {
  const auto at_once = std::chrono::milliseconds(0);
  received_ += gloo_backend::settle(receives_, [&] { return buffer_->waitRecv(nullptr, at_once); });
  gloo_backend::settle(sends_, [&] { return buffer_->waitSend(nullptr, at_once); });
}

}  // namespace zero::gloo_backend
