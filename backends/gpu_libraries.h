#pragma once

/// What connect() needs for payload on GPUs: this rank's libraries and GPU.

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "backends/gpu_standing.h"
#include "backends/nccl/libraries.h"
#include "backends/rendezvous/topology.h"
#include "libzero/collective/collective.h"
#include "libzero/collective/key_value_store.h"

namespace zero {

class GpuLibraries {
 public:
  /// Loads NCCL, the CUDA runtime and libzero's kernels. `gpu`: this rank's, as the CUDA runtime
  /// numbers them; none: the one of its number on its host, or the only one that it sees. Throws
  /// Unavailable naming what is missing, ContractError where there is no such GPU or this host has
  /// more ranks than GPUs.
  GpuLibraries(const Topology& topology, std::optional<int> gpu);

  /// The same for a GPU that was chosen already, but nullopt where it cannot be used; then
  /// `missing` is why.
  static std::optional<GpuLibraries> find(int gpu, std::string& missing);

  /// What this rank can show to the others.
  GpuStanding standing() const;

  /// Collective: nccl::join() beside `control`.
  std::shared_ptr<Collective> join(std::shared_ptr<Collective> control,
                                   std::shared_ptr<KeyValueStore> store,
                                   std::chrono::milliseconds timeout) const;

 private:
  GpuLibraries(std::shared_ptr<const nccl::Apis> apis, int device);

  std::shared_ptr<const nccl::Apis> apis_;
  int device_ = 0;
};

}  // namespace zero
