#pragma once

/// An update of parameters, or images of them, in host memory; state lies there or on a disk.

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "libzero/collective/collective.h"
#include "libzero/layout/layout.h"
#include "libzero/offload/offloaded_state.h"
#include "libzero/optim/aligned_array.h"
#include "libzero/optim/comm_clock.h"
#include "libzero/optim/label.h"
#include "libzero/optim/parameter_table.h"
#include "libzero/optim/parameter_update.h"
#include "libzero/optim/shard_state.h"
#include "libzero/optim/threaded_step.h"

namespace zero {

/// Everything handed to the constructor must outlive this. Threads touch different parameters'
/// elements. Steps use LibTorch's threads.
class HostUpdate final : public ParameterUpdate {
 public:
  HostUpdate(const Layout& layout, ParameterTable& table, std::vector<BucketState>& states,
             Collective& comm, AlignedArray<std::byte>& staging, CommClock& clock,
             const UpdateArithmetic& arithmetic, OffloadedState* offload = nullptr);

  void begin(float gradient_factor) override { gradient_factor_ = gradient_factor; }
  void step_bucket(std::int32_t bucket) override;
  void gather_bucket(std::int32_t bucket) override;
  void gather_and_step_bucket(std::int32_t bucket) override;
  std::optional<Failure> finish() override;
  void refresh_masters() override;
  void restart_average() override;
  void put_average() override;

 private:
  struct StateRun {
    float* master;  ///< Not used for float32 parameters.
    std::array<float*, kMostKept> kept;
  };
  static StateRun state_of(const Segment& segment, BucketState& state);
  static StateRun state_at(const OffloadedRun& run, std::int64_t at);
  /// `on_threads`: null, or whose threads to use.
  void step_segment(const Segment& segment, const StateRun& state, const float* gradient,
                    ThreadedStep* on_threads = nullptr);
  /// Rule and average, over one part of a run.
  void step_run(std::int32_t group, const UpdateRun& run, float* average) const;
  /// Calls use(segment, at, count, array) for all that this rank steps, in pieces that fit into
  /// memory; `array`: elements [at, at + count) of the segment, of the master or of what is kept.
  using UseRun =
      FunctionRef<void(const Segment& segment, std::int64_t at, std::int64_t count, float* array)>;
  void for_each_run(std::int32_t bucket, OffloadedArray array, UseRun use);
  bool is_offloaded(std::int32_t bucket) const;
  void step_offloaded_bucket(std::int32_t bucket);
  void step_offloaded_piece(std::int32_t bucket, std::size_t piece, const float* gradient);
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
  OffloadedState* offload_;  // null: state lies in `states_`
  std::optional<Failure> offload_failure_;
  float gradient_factor_ = 0;
  ThreadedStep on_threads_;  // of the thread that trains
  Label label_;              // of the communication thread
};

}  // namespace zero
