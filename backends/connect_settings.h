#pragma once

/// What connect() was asked for: options first, then the environment, then defaults.

#include <chrono>
#include <optional>
#include <string>

#include "backends/connect.h"

namespace zero {

/// Which backends to try, in this order.
struct BackendPlan {
  bool self = false;
  bool shm = false;
  bool gloo = false;
  bool nccl = false;  ///< On top of one of them, which carries the words.
  /// The same, where all ranks train on GPUs and have what it needs.
  bool nccl_if_all_can = false;

  /// "shm", "shm, else gloo", "nccl beside shm": the same on all ranks, or they would wait for each
  /// other.
  std::string text() const;
};

struct ConnectSettings {
  Topology topology;
  BackendPlan plan;
  std::chrono::milliseconds timeout{};
  std::optional<std::string> interface;
  std::optional<int> gpu;
};

/// Throws ContractError for a backend that does not exist or does not suit the topology, and for a
/// timeout that is none.
ConnectSettings resolve_settings(const ConnectOptions& options);

}  // namespace zero
