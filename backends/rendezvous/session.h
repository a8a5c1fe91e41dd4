#pragma once

/// One connection as the server sees it: handshake, framing, limits. Everything runs on the
/// server's thread.

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "backends/rendezvous/wire.h"

namespace zero::rendezvous {

class Session;

/// What a session reports to its server.
class SessionHost {
 public:
  virtual ~SessionHost() = default;
  virtual void authenticated(Session& session) = 0;
  /// Throws FormatError for a message that makes no sense: the session then closes.
  virtual void request(const std::shared_ptr<Session>& session, const wire::Header& header,
                       const std::string& payload) = 0;
  virtual void closed(Session& session) = 0;
};

struct SessionLimits {
  std::chrono::milliseconds handshake{5000};  ///< To prove knowledge of the secret.
  std::chrono::milliseconds stalled{30000};   ///< For a peer that does not take its answers.
  std::size_t queued_bytes = 4 << 20;         ///< With more unsent, no further request is read.
};

class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(boost::asio::ip::tcp::socket socket, SessionHost& host, std::uint64_t number,
          std::string secret, SessionLimits limits);

  void start();
  void send(wire::Kind kind, std::uint32_t id, std::shared_ptr<const std::string> payload);
  void close();

  std::uint64_t number() const noexcept { return number_; }
  bool is_authenticated() const noexcept { return authenticated_; }
  bool is_closed() const noexcept { return closed_; }

 private:
  struct Outgoing {
    wire::HeaderBytes header;
    std::shared_ptr<const std::string> payload;
  };

  void read_header();
  void read_payload(const wire::Header& header);
  void received(const wire::Header& header);
  void check_proof(const wire::Header& header);
  void write_next();
  void arm(std::chrono::milliseconds limit);

  boost::asio::ip::tcp::socket socket_;
  boost::asio::steady_timer deadline_;
  SessionHost& host_;
  const std::uint64_t number_;
  const std::string secret_;
  const SessionLimits limits_;
  const std::string nonce_;
  wire::HeaderBytes header_{};
  std::string payload_;
  std::deque<Outgoing> outgoing_;
  std::size_t queued_bytes_ = 0;
  bool authenticated_ = false;
  bool reading_ = false;
  bool last_words_ = false;  // close once everything is sent
  bool closed_ = false;
};

/// HMAC over both nonces; `role` is "client" or "server", so that one side's proof is never the
/// other's.
std::string prove(const std::string& secret, std::string_view role, std::string_view server_nonce,
                  std::string_view client_nonce);

}  // namespace zero::rendezvous
