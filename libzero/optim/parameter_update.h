#pragma once

/// Steps one rank's part of the parameters and brings the parts together again.

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "libzero/collective/collective.h"
#include "libzero/collective/failure.h"
#include "libzero/layout/layout.h"
#include "libzero/offload/offloaded_state.h"
#include "libzero/optim/aligned_array.h"
#include "libzero/optim/comm_clock.h"
#include "libzero/optim/label.h"
#include "libzero/optim/parameter_table.h"
#include "libzero/optim/shard_state.h"
#include "libzero/optim/threaded_step.h"
#include "libzero/optim/update_rule.h"

namespace zero {

/// Everything handed to the constructor must outlive this. step_bucket() runs on the thread that
/// trains while gather_bucket() of an earlier bucket runs on the communication thread: they touch
/// different parameters' elements.
class ParameterUpdate {
 public:
  /// What an update does to an element.
  struct Arithmetic {
    const UpdateRule& rule;
    float average_weight = 0;  ///< Of the new master in the average; 0: there is none.
  };

  ParameterUpdate(const Layout& layout, ParameterTable& table, std::vector<BucketState>& states,
                  Collective& comm, AlignedArray<std::byte>& staging, CommClock& clock,
                  const Arithmetic& arithmetic, OffloadedState* offload = nullptr);

  /// One step of the bucket's owned interval (stages 1 and 2), which the rule has begun with the
  /// table's classes. The raw sums of its gradients are multiplied by `gradient_factor`. Uses
  /// LibTorch's threads.
  void step_bucket(std::int32_t bucket, float gradient_factor);

  /// Collective: gives every rank the parameters that the others stepped (stages 1 and 2).
  void gather_bucket(std::int32_t bucket);

  /// Collective: brings the bucket's summed gradient together, and steps all of it (stage 0).
  void gather_and_step_bucket(std::int32_t bucket, float gradient_factor);

  /// From now on each element of a gradient, factor included, is brought into [-limit, limit]; 0:
  /// no.
  void clip_values(float limit) noexcept { value_limit_ = limit; }

  /// From now on gradients of a parameter group are multiplied by its factor instead of the one
  /// that is given; empty: no. Must outlive this, or the next call.
  void clip_groups(std::span<const float> factors) noexcept { group_factors_ = factors; }

  /// Masters of 16-bit parameters := parameters. Throws IoError if they are offloaded.
  void refresh_masters();

  /// The average, if there is one := masters. Throws IoError if it is offloaded.
  void restart_average();

  /// This rank's part of the parameters := the average, rounded; gather_bucket() brings the
  /// others'. Throws IoError if it is offloaded.
  void put_average();

  /// After all buckets, where state is offloaded: waits until it is written. The first thing that
  /// went wrong since the last call; from then on nothing was stepped, but the collectives went on.
  std::optional<Failure> finish_offloaded();

 private:
  struct StateRun {
    float* master;  ///< Not used for float32 parameters.
    std::array<float*, kMostKept> kept;
  };
  static StateRun state_of(const Segment& segment, BucketState& state);
  static StateRun state_at(const OffloadedRun& run, std::int64_t at);
  /// `on_threads`: null, or whose threads to use.
  void step_segment(const Segment& segment, const StateRun& state, const float* gradient,
                    float gradient_factor, ThreadedStep* on_threads = nullptr);
  /// Rule and average, over one part of a run.
  void step_run(std::int32_t group, const UpdateRun& run, float* average) const;
  /// Calls use(segment, at, count, array) for all that this rank steps, in pieces that fit into
  /// memory; `array`: elements [at, at + count) of the segment, of the master or of what is kept.
  using UseRun =
      FunctionRef<void(const Segment& segment, std::int64_t at, std::int64_t count, float* array)>;
  void for_each_run(std::int32_t bucket, OffloadedArray array, UseRun use);
  bool is_offloaded(std::int32_t bucket) const;
  void step_offloaded_bucket(std::int32_t bucket, float gradient_factor);
  void step_offloaded_piece(std::int32_t bucket, std::size_t piece, const float* gradient,
                            float gradient_factor);
  void refresh_offloaded_masters(std::int32_t bucket);
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
  const Arithmetic arithmetic_;
  OffloadedState* offload_;  // null: state lies in `states_`
  std::optional<Failure> offload_failure_;
  float value_limit_ = 0;
  std::span<const float> group_factors_;
  ThreadedStep on_threads_;  // of the thread that trains
  Label label_;              // of the communication thread
};

}  // namespace zero
