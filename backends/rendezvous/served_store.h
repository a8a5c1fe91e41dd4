#pragma once

#include <chrono>
#include <memory>

#include "backends/rendezvous/store_server.h"
#include "libzero/collective/key_value_store.h"

namespace zero::rendezvous {

/// Starts a server and connects to it at `reach_host`. The server lives as long as the store that
/// is returned; when that is destroyed it waits for the other clients to leave, at most `patience`,
/// so that a rank that is done first does not cut off the last ones. Throws IoError if it cannot
/// listen and CommError like connect_store().
std::shared_ptr<KeyValueStore> serve_store(const ServerOptions& options,
                                           const std::string& reach_host,
                                           std::chrono::milliseconds timeout,
                                           std::chrono::milliseconds patience);

}  // namespace zero::rendezvous
