#pragma once

/// The key-value store over TCP: a server for rank 0 or a launcher, a client for every rank.

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "libzero/collective/key_value_store.h"

namespace zero::rendezvous {

struct ServerOptions {
  std::string host = "127.0.0.1";  ///< Address to listen on; "0.0.0.0" for all.
  int port = 0;                    ///< 0: the system picks a free one.
  std::string secret;              ///< Clients that do not know it are turned away.
};

/// Serves until destroyed, on a thread of its own. Strangers, garbage, oversized messages and half-open connections cost
/// that one connection, never the server. Throws IoError naming address and port if it cannot listen.
class StoreServer {
 public:
  explicit StoreServer(const ServerOptions& options);
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  int port() const noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Connects to a server, retrying until it is there or `timeout` has passed. Throws CommError naming host, port and the
/// last reason, also when the secret is wrong or the other side is no libzero store.
std::shared_ptr<KeyValueStore> connect_store(const std::string& host, int port, const std::string& secret,
                                             std::chrono::milliseconds timeout);

}  // namespace zero::rendezvous
