#pragma once

/// Joins this process to the other ranks.

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "backends/rendezvous/topology.h"
#include "libzero/base/log.h"
#include "libzero/collective/collective.h"

namespace zero {

struct ConnectOptions {
  /// "auto", "self", "shm", "gloo". auto: self for one rank; shm where all ranks are on one host
  /// and can share memory, which they find out together; otherwise gloo. The same on all ranks.
  /// Default: ZERO_BACKEND, or "auto".
  std::optional<std::string> backend = std::nullopt;
  /// For every wait: joining, and each collective. Default: ZERO_TIMEOUT (seconds), or 300 s.
  std::optional<std::chrono::milliseconds> timeout = std::nullopt;
  /// Network interface or address to listen on where a machine has several. Default:
  /// ZERO_INTERFACE, or the address by which the store is reached.
  std::optional<std::string> interface = std::nullopt;
  /// Default: from the environment (topology_from).
  std::optional<Topology> topology = std::nullopt;
  /// Told once which launcher, backend, plug-in and address were chosen. Default: nobody.
  LogSink log = nullptr;
};

/// Resolves the topology and backend, meets the other ranks and returns this rank's communicator.
/// Throws ContractError for a bad environment or if ranks of different hosts ask for shm,
/// Unavailable for a backend that this build or machine lacks, IoError if this rank must serve the
/// store and cannot listen or if there is not enough memory to share, CommError naming the ranks
/// that did not come in time.
///
/// Plug-ins (libzero_gloo.so) are looked for in the folders of ZERO_PLUGIN_PATH (separated by ':'),
/// beside the program, in ../lib of it, and where libzero was installed or built. Where rank 0
/// serves the store, its communicator keeps it alive; destroying that waits for ranks that still
/// use the store, at most 10 s.
std::shared_ptr<Collective> connect(const ConnectOptions& options = {});

}  // namespace zero
