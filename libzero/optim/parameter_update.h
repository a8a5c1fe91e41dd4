#pragma once

/// Steps one rank's part of the parameters and brings the parts together again.

#include <cstddef>
#include <vector>

#include "libzero/collective/collective.h"
#include "libzero/kernels/adamw.h"
#include "libzero/layout/layout.h"
#include "libzero/optim/aligned_array.h"
#include "libzero/optim/comm_clock.h"
#include "libzero/optim/label.h"
#include "libzero/optim/parameter_table.h"
#include "libzero/optim/shard_state.h"
#include "libzero/optim/threaded_step.h"

namespace zero {

/// Everything handed to the constructor must outlive this. step_bucket() runs on the thread that
/// trains while gather_bucket() of an earlier bucket runs on the communication thread: they touch
/// different parameters' elements.
class ParameterUpdate {
 public:
  ParameterUpdate(const Layout& layout, ParameterTable& table, std::vector<BucketState>& states,
                  Collective& comm, AlignedArray<std::byte>& staging, CommClock& clock);

  /// One AdamW step of the bucket's owned interval (stages 1 and 2). The raw sums of its gradients
  /// are multiplied by `gradient_factor`. constants: one per parameter group. Uses LibTorch's
  /// threads.
  void step_bucket(std::int32_t bucket, float gradient_factor,
                   const std::vector<AdamWConstants>& constants);

  /// Collective: gives every rank the parameters that the others stepped (stages 1 and 2).
  void gather_bucket(std::int32_t bucket);

  /// Collective: brings the bucket's summed gradient together, and steps all of it (stage 0).
  void gather_and_step_bucket(std::int32_t bucket, float gradient_factor,
                              const std::vector<AdamWConstants>& constants);

  /// Masters of 16-bit parameters := parameters.
  void refresh_masters();

 private:
  template <typename Step>
  void step_segment(const Segment& segment, BucketState& state, const float* gradient,
                    float gradient_factor, const std::vector<AdamWConstants>& constants,
                    Step&& step);
  template <typename Call>
  void collect(std::int32_t bucket, std::int64_t bytes, Call call);
  void gather_piece(std::int32_t bucket, const BucketPiece& piece);
  const float* gather_gradient(std::int32_t bucket, const BucketPiece& piece);

  const Layout& layout_;
  ParameterTable& table_;
  std::vector<BucketState>& states_;
  Collective& comm_;
  AlignedArray<std::byte>& staging_;
  CommClock& clock_;
  ThreadedStep on_threads_;  // of the thread that trains
  Label label_;              // of the communication thread
};

}  // namespace zero
