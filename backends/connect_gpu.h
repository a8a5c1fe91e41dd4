#pragma once

/// What connect() needs for the backend nccl.

#include <chrono>
#include <memory>

#include "backends/nccl/libraries.h"
#include "backends/rendezvous/topology.h"
#include "libzero/collective/collective.h"
#include "libzero/collective/key_value_store.h"

namespace zero {

class GpuLibraries {
 public:
  /// Loads NCCL, the CUDA runtime and libzero's kernels and chooses this rank's GPU. Throws
  /// Unavailable naming what is missing, ContractError where this host has more ranks than GPUs.
  explicit GpuLibraries(const Topology& topology);

  /// Collective: nccl::join() beside `control`.
  std::shared_ptr<Collective> join(std::shared_ptr<Collective> control,
                                   std::shared_ptr<KeyValueStore> store,
                                   std::chrono::milliseconds timeout) const;

 private:
  std::shared_ptr<const nccl::Apis> apis_;
  int device_ = 0;
};

}  // namespace zero
