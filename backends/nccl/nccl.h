#pragma once

/// Ranks that own a GPU each and talk over NCCL.

#include <chrono>
#include <cstdint>
#include <memory>

#include "backends/nccl/libraries.h"
#include "libzero/collective/collective.h"
#include "libzero/collective/key_value_store.h"

namespace zero::nccl {

struct Options {
  std::shared_ptr<const Apis> apis;  ///< load_apis()
  /// A communicator of the same ranks over the host (shm, gloo): it carries words and payload in
  /// host memory, and knows who has died. The new communicator takes it over.
  std::shared_ptr<Collective> control;
  std::shared_ptr<KeyValueStore> store;  ///< Its keys under "nccl/" are used by this world alone.
  int device = 0;                        ///< This rank's GPU, which no other rank uses.
  std::chrono::milliseconds timeout{300'000};  ///< As of `control`.
  /// GPU memory for what is received and not added up yet; also the length of the pieces in which
  /// large sums travel. In any order: a slice that is larger takes memory for the call, which
  /// returns when all is done. The same on every rank.
  std::int64_t scratch_bytes = std::int64_t{64} << 20;
};

/// Meets the other ranks. Payload may lie in the GPU's memory (then it goes over NCCL) or in host
/// memory (then over `control`), all of one call in the same, on every rank; ranks that disagree on
/// that get a ContractError like for any other mismatch.
///
/// A call returns when its work is on this communicator's own stream; Work::wait() makes the host
/// wait for it, Work::lead_stream() a stream. Sums have the bits of every other backend;
/// ReduceScatterOptions::any_order is NCCL's own reduce-scatter, which for 16-bit types rounds
/// after each addition. A call with an epilogue returns when all is done, and shows pieces as large
/// as the scratch holds. Device memory of two communicators of one GPU must not be in flight at the
/// same time: NCCL can block itself then.
///
/// Throws ContractError for bad or different options, Unavailable, CommError naming the rank that
/// fell silent or left.
std::shared_ptr<Collective> join(Options options);

}  // namespace zero::nccl
