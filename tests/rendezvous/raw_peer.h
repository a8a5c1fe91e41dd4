#pragma once

/// A peer that speaks whatever bytes a test wants.

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>

#include "backends/rendezvous/keyed_hash.h"
#include "backends/rendezvous/session.h"
#include "backends/rendezvous/wire.h"

namespace zero::rendezvous::testing {

class RawPeer {
 public:
  explicit RawPeer(int port) {
    socket_.connect({boost::asio::ip::address_v4::loopback(), static_cast<std::uint16_t>(port)});
  }

  void send(const std::string& bytes) {
    boost::system::error_code ignored;
    boost::asio::write(socket_, boost::asio::buffer(bytes), ignored);
  }

  /// The length is what the header says, not what the payload is, where given.
  void send_frame(wire::Kind kind, std::uint32_t id, const std::string& payload,
                  std::int64_t length = -1) {
    const auto said =
        static_cast<std::uint32_t>(length < 0 ? static_cast<std::int64_t>(payload.size()) : length);
    const auto header = wire::encode({kind, id, said});
    send(std::string(header.begin(), header.end()) + payload);
  }

  std::pair<wire::Header, std::string> receive_frame() {
    wire::HeaderBytes bytes{};
    receive(bytes.data(), bytes.size());
    const wire::Header header = wire::decode(bytes, wire::kMaxPayloadBytes);
    std::string payload(header.length, '\0');
    receive(payload.data(), payload.size());
    return {header, payload};
  }

  void authenticate(const std::string& secret) {
    const std::string challenge = receive_frame().second;
    const std::string nonce = random_bytes(wire::kNonceBytes);
    send_frame(wire::Kind::kProof, 0, nonce + prove(secret, "client", challenge, nonce));
    if (receive_frame().first.kind != wire::Kind::kWelcome) throw std::runtime_error("not let in");
  }

  /// Reads until the other side closes; false if that takes more than ten seconds.
  bool is_closed_by_peer() {
    char sink[4096];
    while (is_readable()) {
      boost::system::error_code error;
      socket_.read_some(boost::asio::buffer(sink), error);
      if (error) return true;
    }
    return false;
  }

 private:
  bool is_readable() {
    constexpr int kLongest = 10000;
    pollfd state{socket_.native_handle(), POLLIN, 0};
    return ::poll(&state, 1, kLongest) == 1;
  }

  void receive(char* into, std::size_t count) {
    for (std::size_t done = 0; done < count;) {
      if (!is_readable()) throw std::runtime_error("the other side says nothing");
      done += socket_.read_some(boost::asio::buffer(into + done, count - done));
    }
  }

  boost::asio::io_context io_;
  boost::asio::ip::tcp::socket socket_{io_};
};

}  // namespace zero::rendezvous::testing
