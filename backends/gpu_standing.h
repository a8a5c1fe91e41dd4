#pragma once

/// Whether all ranks can use NCCL: found out together, before any of them joins it, so that no rank
/// waits for one that does not come.

#include <chrono>
#include <optional>
#include <string>

#include "libzero/collective/key_value_store.h"

namespace zero {

/// What one rank brings along.
struct GpuStanding {
  bool trains_on_gpu = false;
  std::string missing;  ///< Why it cannot use NCCL; "" where it can.
  std::string gpu;      ///< The same text for one and the same GPU only, over all machines.
  int nccl_version = 0;
};

/// Shows it to the other ranks: before the roll is called, so that it is there afterwards.
void show_standing(KeyValueStore& store, int rank, const GpuStanding& standing);

/// Why the ranks cannot use NCCL, in one line that names ranks; "" if they can; nullopt if none of
/// them trains on a GPU. The same on every rank, after the roll was called. Throws CommError where
/// rank 0, which finds it out, leaves or takes longer than `timeout`.
std::optional<std::string> why_not_nccl(KeyValueStore& store, int rank, int size,
                                        std::chrono::milliseconds timeout);

}  // namespace zero
