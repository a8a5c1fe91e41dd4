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

/// By state ("master", ...): the hash of its parameters' hashes, in the order of the table; a
/// parameter's is that of all its elements in row-major order. The same at every world size.
using Digests = std::map<std::string, Hash>;

/// Reads everything once, as it lies on the disk, and so checks every block. Memory: 1 MiB, one
/// block (8 MiB as a rule), and a little for each parameter. Throws FormatError (damage), IoError,
/// Cancelled.
Digests digests_of(const Reader& reader, const Progress& progress = {});

struct ReshardOptions {
  int world_size = 1;
  /// Bytes of buffers, at least 1 MiB: data are read in pieces of an eighth, at most 8 MiB, or of
  /// kMaxPartBytes. One block of the source (8 MiB as a rule) and one MiB of the writer's come on
  /// top.
  std::uint64_t memory = std::uint64_t{64} << 20;
  Progress progress;  ///< The source is read twice, first to check it: total is twice its size.
};

struct ReshardResult {
  Digests digests;  ///< Of the source and of what was written: they were compared.
  CommitResult commit;
};

/// Writes `source` into `destination` under the same step and run, cut for another world size by
/// Ownership's rule. Everything else is copied unchanged. Blobs of ranks that the new world has not
/// stay as surplus_rank_blobs; ranks that are new have theirs if the source kept some, or none.
///
/// First the source is read from front to back, which checks every block and gives its digests.
/// Then the new shards are written, one after the other, and what is handed to the writer gives
/// digests, too. Commits only if they agree: destination then has the step whole, otherwise nothing
/// new. A damaged source is found before anything is written.
/// Throws ContractError (the step exists there, a world size out of range, memory below 1 MiB),
/// FormatError (the source is damaged), IoError, Cancelled.
ReshardResult reshard(const Reader& source, Store& destination, const ReshardOptions& options);

}  // namespace zero::checkpoint
