#pragma once

/// The key-value store over TCP: a server for rank 0 or a launcher, a client for every rank.
///
/// The secret itself never travels: each side proves to the other that it knows it (wire.h says
/// what that protects against and what not).

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "libzero/collective/key_value_store.h"

namespace zero::rendezvous {

struct ServerOptions {
  std::string host = "127.0.0.1";  ///< Address to listen on; "0.0.0.0" for all.
  int port = 0;                    ///< 0: the system picks a free one.
  std::string secret = "";         ///< Clients that do not know it are turned away.
  /// A connection that has not proved to know the secret by then is closed.
  std::chrono::milliseconds handshake_timeout{5000};
  /// When all are taken, a newcomer replaces the oldest connection that has not proved itself, or
  /// is turned away.
  int max_connections = 4096;
};

/// Serves until destroyed, on a thread of its own. Strangers, garbage, oversized messages and
/// half-open connections cost that one connection, never the server. Throws IoError naming address
/// and port if it cannot listen. Any thread may call its functions. Clients that are still
/// connected when it is destroyed get a CommError.
class StoreServer {
 public:
  explicit StoreServer(const ServerOptions& options);
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  int port() const noexcept;

  /// Waits until no client is connected; false if `timeout` passed first.
  bool wait_until_unused(std::chrono::milliseconds timeout);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Connects to a server, retrying until it is there or `timeout` has passed. Throws CommError
/// naming host, port and the last reason; at once when the secret is wrong or the other side is no
/// libzero store. `timeout` is also the longest that a later call waits for an answer (get: on top
/// of its own timeout, at most 5 s).
std::shared_ptr<KeyValueStore> connect_store(const std::string& host, int port,
                                             const std::string& secret,
                                             std::chrono::milliseconds timeout);

}  // namespace zero::rendezvous
