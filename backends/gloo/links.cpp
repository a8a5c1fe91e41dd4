#include "backends/gloo/links.h"

#include <gloo/transport/address.h>

#include <algorithm>

#include "libzero/base/error.h"

namespace zero::gloo_backend {
namespace {

// Gloo waits five times its timeout for a connection.
std::chrono::milliseconds connect_timeout(std::chrono::milliseconds timeout) {
  return std::max(timeout / 5, std::chrono::milliseconds(1));
}

}  // namespace

Links::Links(Device& device, int rank, int size, std::chrono::milliseconds timeout)
    : device_(device), rank_(rank), size_(size), context_(device.create_context(rank, size)) {
  context_->setTimeout(connect_timeout(timeout));
  for (int peer = 0; peer < size; ++peer) {
    if (peer != rank) context_->createPair(peer);
  }
}

Links::~Links() {
  const Device::Hurry hurry(device_);
  context_.reset();
}

std::string Links::address_for(int peer) const {
  const std::vector<char> bytes = context_->getPair(peer)->address().bytes();
  return {bytes.begin(), bytes.end()};
}

void Links::connect(int peer, const std::string& address) {
  const Device::Hurry hurry(device_);
  context_->getPair(peer)->connect(std::vector<char>(address.begin(), address.end()));
}

void Links::close() noexcept {
  const Device::Hurry hurry(device_);
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    try {
      context_->getPair(peer)->close();
    } catch (const std::exception&) {  // closed already
    }
  }
}

void first_receives(int peer, const std::function<void()>& post) {
  try {
    post();
  } catch (const std::exception& error) {
    throw CommError("the ranks could not meet: rank " + std::to_string(peer) +
                    " died while the others joined; look at its output: " + error.what());
  }
}

}  // namespace zero::gloo_backend
