#pragma once

/// The client's side of coming in: resolve, connect, prove the secret, check the server's proof.

#include <chrono>
#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "backends/rendezvous/wire.h"

namespace zero::rendezvous {

/// A connection on which both sides have proved themselves. One thread at a time.
class Connection {
 public:
  /// Tries again until it works or `timeout` has passed; throws what connect_store() documents.
  static std::unique_ptr<Connection> open(const std::string& host, int port,
                                          const std::string& secret,
                                          std::chrono::milliseconds timeout);

  boost::asio::io_context& io() noexcept { return io_; }
  boost::asio::ip::tcp::socket& socket() noexcept { return socket_; }
  const std::string& address() const noexcept { return address_; }  ///< "host:port", for messages.

 private:
  using Clock = std::chrono::steady_clock;
  using Deadline = Clock::time_point;
  class Retry;  // thrown where another attempt may help

  explicit Connection(std::string address) : address_(std::move(address)) {}

  void attempt(const std::string& host, int port, const std::string& secret, Deadline deadline);
  void connect(const std::string& host, int port, Deadline deadline);
  void prove_both(const std::string& secret, Deadline deadline);
  std::string receive(wire::Kind expected, Deadline deadline, const char* silence);
  void send(wire::Kind kind, const std::string& payload, Deadline deadline);
  template <typename Start>
  void run(Deadline deadline, const char* what, Start&& start);

  boost::asio::io_context io_{1};
  boost::asio::ip::tcp::socket socket_{io_};
  std::string address_;
};

}  // namespace zero::rendezvous
