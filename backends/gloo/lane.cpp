#include "backends/gloo/lane.h"

#include <utility>

namespace zero::gloo_backend {

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
  try {
    bool called_off_before = false;
    while (receives_ > 0) {
      // A wait that was called off returns false once, whatever has arrived; a wait of no time
      // throws.
      if (buffer_->waitRecv(nullptr, std::chrono::milliseconds(0))) {
        --receives_;
        ++received_;
      } else if (std::exchange(called_off_before, true)) {
        return;
      }
    }
  } catch (const std::exception&) {
  }
}

}  // namespace zero::gloo_backend
