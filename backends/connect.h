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

/// What the environment says otherwise.
struct ConnectOptions {
  /// "auto", "self", "shm", "gloo", "nccl". auto: self for one rank; shm where all ranks are on one
  /// host and can share memory, otherwise gloo; and beside that, for the memory of GPUs, NCCL where
  /// every rank trains on a GPU of its own (`gpu`) and has all that NCCL needs. Ranks find this out
  /// together; where NCCL cannot be, each says in the log why. nccl: the same, but every rank must
  /// have what is needed. The same on all ranks. Default: ZERO_BACKEND, or "auto".
  std::optional<std::string> backend = std::nullopt;
  /// This rank trains on this GPU, as the CUDA runtime numbers them; none: on the CPU. The backend
  /// nccl alone takes, where there is none here, the GPU with this rank's number on its host.
  std::optional<int> gpu = std::nullopt;
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
/// Collective: every rank of the run calls it, once for each restart. Waits at most for the timeout
/// in each of its parts. One thread, while no other changes the environment.
///
/// Throws ContractError for a bad environment or option, if ranks were told of different backends
/// or places, if ranks of different hosts ask for shm or if ranks that ask for nccl cannot have it
/// together (one GPU for two, different NCCLs), Unavailable for a backend that this build or
/// machine lacks, IoError if this rank must serve the store and cannot listen or if there is not
/// enough memory to share, CommError naming the ranks that did not come in time, or if the store
/// cannot be reached or knows another secret, FormatError if another rank's answer makes no sense
/// (another libzero).
///
/// ZERO_NCCL_LIBRARY and ZERO_CUDART_LIBRARY name libraries to take instead of libnccl.so.2 and
/// libcudart.so; libzero's kernels for GPUs are looked for like a plug-in.
///
/// Plug-ins (libzero_gloo.so) are looked for in the folders of ZERO_PLUGIN_PATH (separated by ':'),
/// beside the program, in ../lib of it, where libzero was configured to be installed, and where the
/// program's own shared libraries are looked for (LD_LIBRARY_PATH, RUNPATH). Where rank 0
/// serves the store, its communicator keeps it alive; destroying that waits for ranks that still
/// use the store, at most 10 s.
std::shared_ptr<Collective> connect(const ConnectOptions& options = {});

}  // namespace zero
