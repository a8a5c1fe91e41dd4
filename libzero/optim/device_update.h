#pragma once

/// An update of parameters and state in the memory of a GPU.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "libzero/layout/layout.h"
#include "libzero/optim/comm_clock.h"
#include "libzero/optim/device_home.h"
#include "libzero/optim/label.h"
#include "libzero/optim/parameter_table.h"
#include "libzero/optim/parameter_update.h"
#include "libzero/optim/shard_state.h"

namespace zero {

/// Everything handed to the constructor must outlive this. Buckets are stepped on the home's lane
/// and gathered on its gather_lane, while the next ones are stepped. Nothing here waits for the GPU
/// but settle() and collectives.
class DeviceUpdate final : public ParameterUpdate {
 public:
  DeviceUpdate(const Layout& layout, ParameterTable& table, const std::vector<BucketState>& states,
               DeviceHome& home, CommClock& clock, const UpdateArithmetic& arithmetic, int rank,
               int world_size);

  void begin(float gradient_factor) override;
  void step_bucket(std::int32_t bucket) override;
  void begin_gathers() override;
  void gather_bucket(std::int32_t bucket) override;
  void finish_gathers() override;
  void gather_and_step_bucket(std::int32_t bucket) override;
  std::optional<Failure> finish() override;
  void settle() override;
  void refresh_masters() override;
  void restart_average() override;
  void put_average() override;

 private:
  void upload(std::span<const std::byte> constants, float gradient_factor);
  void step_segment(const Segment& segment, const at::Tensor& gradient, std::int64_t at);
  void gather_piece(std::int32_t bucket, const BucketPiece& piece);
  at::Tensor staging_of(DType dtype, std::int64_t elements) const;
  void read_parameter(DeviceLane& lane, const Segment& segment, const at::Tensor& to) const;
  void write_parameter(DeviceLane& lane, const Segment& segment, const at::Tensor& from);
  /// Calls use(segment, array) for all that this rank steps: of the master, which may be the
  /// parameter, or of what is kept.
  using UseRun = std::function<void(const Segment& segment, const at::Tensor& array)>;
  void for_each_run(std::int32_t bucket, OffloadedArray array, const UseRun& use) const;
  const at::Tensor& tensor_of(const Segment& segment) const {
    return table_.tensors[static_cast<std::size_t>(segment.parameter)];
  }

  const Layout& layout_;
  ParameterTable& table_;
  const std::vector<BucketState>& states_;
  DeviceState& device_state_;
  DeviceLane& lane_;
  DeviceLane& gather_lane_;
  DevicePayload& payload_;
  const at::Tensor staging_;
  CommClock& clock_;
  const int rank_;
  const int world_size_;
  Label label_;  // of the communication thread
  // What kernels read of the present step: a StepState for each factor, then the rule's constants.
  at::Tensor step_on_host_;  // pinned
  at::Tensor step_;
  std::int64_t constants_at_ = 0;
  c10::Event uploaded_;
  std::vector<c10::Event> stepped_;  // by bucket; recorded before its gather is submitted
  c10::Event gathered_;
};

}  // namespace zero
