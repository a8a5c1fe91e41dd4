#pragma once

/// What one rank keeps between steps: accumulator, masters and moments, bucket by bucket.

#include <cstdint>
#include <span>
#include <vector>

#include "libzero/base/arena.h"
#include "libzero/layout/layout.h"
#include "libzero/optim/bucket_pieces.h"
#include "libzero/optim/memory_report.h"
#include "libzero/optim/state_kind.h"

namespace zero {

/// What is kept for each element beside its master.
struct KeptArray {
  StateKind kind;
  ArenaArray<float> values;  ///< Empty where it is offloaded.
};

/// One rank's part of one bucket. All arrays count from the beginning of their interval.
struct BucketState {
  Interval owned;    ///< The slice whose gradients are summed here.
  Interval stepped;  ///< Where masters and moments live: the owned slice, or the whole bucket at
                     ///< stage 0.
  std::vector<Segment> owned_segments;    ///< Of `owned`.
  std::vector<Segment> stepped_segments;  ///< Of `stepped`.
  std::vector<BucketPiece> pieces;        ///< How the bucket travels.
  ArenaArray<float>
      accumulator;  ///< Padded to the collective's slice; zeros beyond the owned interval.
  /// Empty for float32 buckets, where the parameter is its own master, and where it is offloaded.
  ArenaArray<float> master;
  std::vector<KeptArray> kept;     ///< The same kinds in every bucket, in the order of the rule.
  std::vector<double> block_sums;  ///< Sum of squares of each kNormBlock of the accumulator.
};

/// Which of their arrays bucket states have memory for.
enum class StateMemory : std::uint8_t {
  kAll,
  kSums,  ///< Accumulators and block_sums: the rest lies on a disk.
  kNone,  ///< All lies on a GPU.
};

/// All arrays of all buckets lie in one arena, in the order in which a step walks over them.
/// `kept`: beside the master.
std::vector<BucketState> make_bucket_states(const Layout& layout, int stage, int rank,
                                            int world_size, std::span<const StateKind> kept = {},
                                            StateMemory memory = StateMemory::kAll);

/// Elements of all segments together.
std::int64_t numel_of(const std::vector<Segment>& segments);

/// Where `kind` is among what the bucket keeps; the size of `kept` if it is not.
std::size_t index_of(const BucketState& state, StateKind kind);

/// Adds accumulator with its block sums, master and moments to the report, elements of parameters
/// apart from holes and padding.
void add_to_report(const std::vector<BucketState>& states, MemoryReport& report);

}  // namespace zero
