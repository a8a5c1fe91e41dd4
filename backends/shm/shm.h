#pragma once

/// Ranks as processes (or threads) of one host that talk through memory which they share.

#include <chrono>
#include <memory>

#include "backends/shm/joining.h"
#include "libzero/collective/collective.h"
#include "libzero/collective/key_value_store.h"

namespace zero::shm {

struct Options {
  int rank = 0;
  int size = 1;
  std::chrono::milliseconds timeout{};
  std::shared_ptr<KeyValueStore> store;  ///< Its keys under "shm/" are used by this world alone.
};

/// Either a communicator or why there is none; the same of the two on all ranks.
struct Attempt {
  std::shared_ptr<Collective> collective;
  std::unique_ptr<Refusal> refusal;
};

/// Meets the other ranks. Throws ContractError for a bad rank, size or timeout, CommError naming
/// the rank that fell silent or left.
Attempt try_to_join(const Options& options);

/// As above; throws the refusal: ContractError if the ranks do not share a host, Unavailable if
/// this system has no memory to share, IoError if there is not enough of it.
std::shared_ptr<Collective> join(const Options& options);

}  // namespace zero::shm
