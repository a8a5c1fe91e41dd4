#pragma once

/// Gradients and their sums in the memory of a GPU.

#include <c10/core/Event.h>

#include <array>
#include <cstdint>
#include <vector>

#include "libzero/optim/bucket_reduction.h"
#include "libzero/optim/comm_clock.h"
#include "libzero/optim/device_lane.h"
#include "libzero/optim/device_payload.h"
#include "libzero/optim/device_state.h"
#include "libzero/optim/stream_marks.h"

namespace zero {

/// Everything handed to the constructor must outlive this. `staging`: 1-D, uint8, on the device.
///
/// All work is given to the lane and goes on while backward does. Gradients of two buckets at most
/// are kept alive for it: who packs a third waits for the first.
class DeviceReduction final : public BucketReduction {
 public:
  DeviceReduction(const Layout& layout, const ParameterTable& table,
                  const std::vector<BucketState>& states, DeviceState& device_state,
                  DeviceLane& lane, DevicePayload& payload, at::Tensor staging, CommClock& clock,
                  std::vector<DType> wire, int world_size);
  ~DeviceReduction() override;

  void note_stream(std::int32_t bucket) override { marks_.note(bucket); }
  void before_backward() override;
  void let_go() noexcept override;
  void prepare(std::int32_t bucket, std::vector<Contribution>& by_parameter,
               bool zero_after) override;
  void pack(std::int32_t bucket, const BucketPiece& piece, std::vector<Contribution>& by_parameter,
            bool zero_after) override;
  void reduce(std::int32_t bucket, const BucketPiece& piece, bool accumulate,
              const CallName& name) override;

 private:
  /// What the lane still reads.
  struct Held {
    explicit Held(c10::DeviceType type) : read(type) {}
    std::vector<at::Tensor> tensors;
    c10::Event read;
    bool is_recorded = false;  // false after a failure, too
  };
  void await(Held& held, std::int32_t bucket);
  void copy_run(const StagedRun& run, Contribution& from, const at::Tensor& to, bool zero_after);

  const Layout& layout_;
  DeviceState& device_state_;
  DeviceLane& lane_;
  DevicePayload& payload_;
  const at::Tensor staging_;
  CommClock& clock_;
  const std::vector<DType> wire_;
  const int world_size_;
  std::int32_t last_bucket_ = -1;  // that has elements
  StreamMarks marks_;
  std::array<Held, 2> held_;
  std::size_t next_held_ = 0;  // the one that was filled longer ago
  c10::Event packed_;          // the last one; the thread that trains looks when all is packed
};

}  // namespace zero
