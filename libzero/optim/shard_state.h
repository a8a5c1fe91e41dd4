#pragma once

/// What one rank keeps between steps: accumulator, masters and moments, bucket by bucket.

#include <cstdint>
#include <vector>

#include "libzero/base/arena.h"
#include "libzero/layout/layout.h"
#include "libzero/optim/bucket_pieces.h"
#include "libzero/optim/memory_report.h"

namespace zero {

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
  /// Empty for float32 buckets, where the parameter is its own master, and where these three are
  /// offloaded.
  ArenaArray<float> master;
  ArenaArray<float> exp_avg;
  ArenaArray<float> exp_avg_sq;
  std::vector<double> block_sums;  ///< Sum of squares of each kNormBlock of the accumulator.
};

/// All arrays of all buckets lie in one arena, in the order in which a step walks over them.
/// `offloaded`: without masters and moments, which lie elsewhere.
std::vector<BucketState> make_bucket_states(const Layout& layout, int stage, int rank,
                                            int world_size, bool offloaded = false);

/// Adds accumulator with its block sums, master and moments to the report, elements of parameters
/// apart from holes and padding.
void add_to_report(const std::vector<BucketState>& states, MemoryReport& report);

}  // namespace zero
