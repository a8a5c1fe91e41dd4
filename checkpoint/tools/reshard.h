#pragma once

/// The same training state for another number of ranks.

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "checkpoint/hash.h"
#include "checkpoint/progress.h"
#include "checkpoint/store.h"

namespace zero::checkpoint {

/// By state ("master", ...): the hash of all its elements, parameter after parameter in row-major
/// order, whatever the world size.
using Digests = std::map<std::string, Hash>;

/// Reads everything once, in bounded memory (a few MiB).
Digests digests_of(const Reader& reader, const Progress& progress = {});

struct ReshardOptions {
  int world_size = 1;
  std::uint64_t memory = std::uint64_t{64} << 20;  ///< Bytes of buffers, at least 1 MiB.
  Progress progress;
};

struct ReshardResult {
  Digests digests;  ///< Of the source and of what was written: they were compared.
  CommitResult commit;
};

/// Writes `source` into `destination` under the same step and run, cut for another world size by
/// Ownership's rule. Everything else is copied unchanged, blobs of all ranks included. Commits only
/// if the digests agree: destination then has the step whole, otherwise nothing.
/// Throws ContractError (the step exists there, a world size out of range, memory below 1 MiB),
/// FormatError (the source is damaged), IoError, Cancelled.
ReshardResult reshard(const Reader& source, Store& destination, const ReshardOptions& options);

}  // namespace zero::checkpoint
