#pragma once

/// What an Optimizer will hold, from the layout alone: without LibTorch, ranks or memory for it.

#include <cstdint>
#include <optional>
#include <vector>

#include "libzero/layout/layout.h"
#include "libzero/optim/memory_report.h"
#include "libzero/optim/state_kind.h"

namespace zero {

/// Where masters and moments lie.
enum class StatePlace {
  kBeside,  ///< With the parameters.
  kHost,    ///< In host memory, beside a GPU that has the model: all that a rank keeps for it.
  kDisk,    ///< In a file; a few blocks of it at a time in host memory.
};

struct MemoryOptions {
  int stage = 2;
  int world_size = 1;
  std::optional<DType> wire = std::nullopt;  ///< Of gradients; none: the parameter's own.
  StatePlace state = StatePlace::kBeside;
  /// What the update rule keeps for each element beside its master, and the average, where there is
  /// one. Default: AdamW's.
  std::vector<StateKind> kept = {StateKind::kExpAvg, StateKind::kExpAvgSq};
};

/// Bytes of rank 0, the fullest: slices are cut so that the last ranks may have less.
struct MemoryEstimate {
  /// Equal to Optimizer::memory() after construction, to the byte, where state lies beside the
  /// parameters. On a disk: `offloaded` without what fills up a file's pages, `offload_ring` at
  /// most. On the host: total() is what memory() calls `on_device`, `offloaded` the rest.
  MemoryReport report;
  /// Gradients that wait in backward, at most: for their bucket's turn, and the one that autograd
  /// makes. `.grad` kept by stages 0 and 1 is in the report.
  std::int64_t waiting = 0;

  std::int64_t total() const noexcept { return report.total() + waiting; }
};

/// Throws ContractError for a stage other than 0, 1, 2, a world size outside 1 to 65536, and models
/// of more than 2^50 elements, kMaster, kGradient or a kind twice in `kept`. A non-trainable row of
/// group -1 counts as a buffer.
MemoryEstimate estimate_memory(const Layout& layout, const MemoryOptions& options);

}  // namespace zero
