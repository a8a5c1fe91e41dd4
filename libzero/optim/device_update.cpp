#include "libzero/optim/device_update.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/StreamGuard.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "libzero/optim/device_runs.h"
#include "libzero/optim/pinned_memory.h"

namespace zero {
namespace {

constexpr std::int64_t kConstantsAlignment = 64;

}  // namespace

DeviceUpdate::DeviceUpdate(const Layout& layout, ParameterTable& table,
                           const std::vector<BucketState>& states, DeviceHome& home,
                           CommClock& clock, const UpdateArithmetic& arithmetic, int rank,
                           int world_size)
    : ParameterUpdate(arithmetic),
      layout_(layout),
      table_(table),
      states_(states),
      device_state_(home.state),
      lane_(home.lane),
      gather_lane_(home.gather_lane),
      payload_(*home.payload),
      staging_(home.staging),
      clock_(clock),
      rank_(rank),
      world_size_(world_size),
      uploaded_(lane_.device().type()),
      gathered_(lane_.device().type()) {
  for (std::size_t b = 0; b < states.size(); ++b) stepped_.emplace_back(lane_.device().type());
}

void DeviceUpdate::begin(float gradient_factor) {
  lane_.follow_present();
  upload(arithmetic_.rule.constants(), gradient_factor);
}

/// A few hundred bytes, which wait for nothing and for which nothing waits but kernels.
void DeviceUpdate::upload(std::span<const std::byte> constants, float gradient_factor) {
  const at::NoGradGuard no_grad;
  std::vector<cuda::StepState> states(std::max<std::size_t>(1, group_factors_.size()));
  for (std::size_t i = 0; i < states.size(); ++i) {
    states[i].apply = 1;
    states[i].gradient_factor = group_factors_.empty() ? gradient_factor : group_factors_[i];
  }
  const auto state_bytes = static_cast<std::int64_t>(states.size() * sizeof(cuda::StepState));
  constants_at_ =
      (state_bytes + kConstantsAlignment - 1) / kConstantsAlignment * kConstantsAlignment;
  const std::int64_t bytes = constants_at_ + static_cast<std::int64_t>(constants.size());
  if (!step_.defined() || step_.numel() < bytes) {
    step_on_host_ = pinned_tensor({bytes}, at::kByte, "the constants of a step");
    step_ = lane_.allocate(bytes);
  } else {
    lane_.await(uploaded_, "the constants of the step before");
  }
  auto* const host = step_on_host_.data_ptr<std::uint8_t>();
  std::memcpy(host, states.data(), static_cast<std::size_t>(state_bytes));
  std::memcpy(host + constants_at_, constants.data(), constants.size());
  const c10::StreamGuard on_stream(lane_.stream());
  step_.copy_(step_on_host_, /*non_blocking=*/true);
  uploaded_.record(lane_.stream());
}

void DeviceUpdate::step_bucket(std::int32_t bucket) {
  const ObservedScope scope(clock_.observer(), Activity::kUpdate, Lane::kTraining, bucket);
  const at::NoGradGuard no_grad;
  const c10::StreamGuard on_stream(lane_.stream());
  const BucketState& state = states_[static_cast<std::size_t>(bucket)];
  const at::Tensor& sums = device_state_.of(bucket).accumulator;
  for (const Segment& segment : state.stepped_segments)
    step_segment(segment, sums, segment.bucket_begin - state.owned.begin);
  stepped_[static_cast<std::size_t>(bucket)].record(lane_.stream());
}

/// Element `at` of `gradient` is the segment's first.
void DeviceUpdate::step_segment(const Segment& segment, const at::Tensor& gradient,
                                std::int64_t at) {
  const auto p = static_cast<std::size_t>(segment.parameter);
  const ParameterSpec& spec = table_.specs[p];
  const std::int32_t bucket = layout_.slot(segment.parameter).bucket;
  const DeviceState::Arrays& arrays = device_state_.of(bucket);
  const std::int64_t first =
      segment.bucket_begin - states_[static_cast<std::size_t>(bucket)].stepped.begin;
  DeviceRun parameter(table_.tensors[p], segment.parameter_begin, segment.numel);
  UpdateRun run;
  run.gradient = gradient.const_data_ptr<float>() + at;
  for (std::size_t i = 0; i < arithmetic_.rule.moments().size(); ++i)
    run.moments[i] = arrays.kept[i].data_ptr<float>() + first;
  run.n = segment.numel;
  if (spec.dtype == DType::kFloat32) {
    run.master = static_cast<float*>(parameter.data());
  } else {
    run.master = arrays.master.data_ptr<float>() + first;
    run.low_precision = parameter.data();
    run.low_precision_dtype = spec.dtype;
  }
  const auto* const states = static_cast<const cuda::StepState*>(step_.const_data_ptr());
  const cuda::StepState* const state =
      states + (group_factors_.empty() ? 0 : static_cast<std::size_t>(spec.group));
  const void* const constants = step_.const_data_ptr<std::uint8_t>() + constants_at_;
  lane_.check(
      arithmetic_.rule.launch(table_.classes[p], run,
                              {lane_.kernels(), lane_.native(), state, constants, value_limit_}),
      arithmetic_.rule.name());
  if (arithmetic_.average_weight > 0) {
    const at::Tensor& average = arrays.kept[arithmetic_.rule.moments().size()];
    const cuda::Average mean{state, arithmetic_.average_weight, run.master,
                             average.data_ptr<float>() + first, run.n};
    lane_.check(lane_.kernels().average(&mean, lane_.native()), "average");
  }
  parameter.finish();
}

at::Tensor DeviceUpdate::staging_of(DType dtype, std::int64_t elements) const {
  return staging_.view(scalar_type_of(dtype)).narrow(0, 0, elements);
}

void DeviceUpdate::begin_gathers() {
  lane_.follow_present();
  for (c10::Event& stepped : stepped_) stepped.record(lane_.stream());
}

void DeviceUpdate::gather_bucket(std::int32_t bucket) {
  if (world_size_ == 1) return;  // nobody else has stepped anything
  const at::NoGradGuard no_grad;
  const c10::StreamGuard on_stream(gather_lane_.stream());
  stepped_[static_cast<std::size_t>(bucket)].block(gather_lane_.stream());
  for (const BucketPiece& piece : states_[static_cast<std::size_t>(bucket)].pieces)
    gather_piece(bucket, piece);
}

void DeviceUpdate::gather_piece(std::int32_t bucket, const BucketPiece& piece) {
  const DType dtype = layout_.buckets()[static_cast<std::size_t>(bucket)].dtype;
  const at::Tensor staging = staging_of(dtype, piece.count * world_size_);
  for (const auto& [segment, rank, staged] : piece.runs) {
    payload_.make_room_for_launch();
    if (rank == rank_)
      read_parameter(gather_lane_, segment, staging.narrow(0, staged, segment.numel));
  }
  label_.begin("parameters, bucket ").add(bucket);
  {
    const ObservedScope scope(clock_.observer(), Activity::kGather, Lane::kCommunication, bucket,
                              static_cast<std::int64_t>(staging.nbytes()));
    clock_.timed([&] {
      payload_.all_gather(gather_lane_, staging.narrow(0, rank_ * piece.count, piece.count),
                          staging, label_.text());
    });
  }
  for (const auto& [segment, rank, staged] : piece.runs) {
    payload_.make_room_for_launch();
    if (rank != rank_)
      write_parameter(gather_lane_, segment, staging.narrow(0, staged, segment.numel));
  }
}

/// What the lane is given from here on sees what the other lane has done.
void DeviceUpdate::finish_gathers() {
  if (world_size_ > 1) {
    gathered_.record(gather_lane_.stream());
    gathered_.block(lane_.stream());
  }
  lane_.lead_present();
}

void DeviceUpdate::gather_and_step_bucket(std::int32_t bucket) {
  const at::NoGradGuard no_grad;
  const c10::StreamGuard on_stream(lane_.stream());
  const at::Tensor& sums = device_state_.of(bucket).accumulator;
  for (const BucketPiece& piece : states_[static_cast<std::size_t>(bucket)].pieces) {
    const at::Tensor staging = staging_of(DType::kFloat32, piece.count * world_size_);
    label_.begin("summed gradients, bucket ").add(bucket);
    {
      const ObservedScope scope(clock_.observer(), Activity::kGather, Lane::kCommunication, bucket,
                                static_cast<std::int64_t>(staging.nbytes()));
      clock_.timed([&] {
        payload_.all_gather(lane_, sums.narrow(0, piece.begin, piece.count), staging,
                            label_.text());
      });
    }
    const ObservedScope scope(clock_.observer(), Activity::kUpdate, Lane::kCommunication, bucket);
    for (const auto& [segment, rank, staged] : piece.runs) {
      payload_.make_room_for_launch();
      step_segment(segment, staging, staged);
    }
  }
}

std::optional<Failure> DeviceUpdate::finish() {
  finish_gathers();
  return std::nullopt;
}

void DeviceUpdate::settle() {
  clock_.timed([&] { payload_.settle(); });
}

void DeviceUpdate::read_parameter(DeviceLane& lane, const Segment& segment,
                                  const at::Tensor& to) const {
  const at::Tensor dense = tensor_of(segment).detach().contiguous();
  lane.cast(dense.view({-1}).narrow(0, segment.parameter_begin, segment.numel), to);
}

void DeviceUpdate::write_parameter(DeviceLane& lane, const Segment& segment,
                                   const at::Tensor& from) {
  at::Tensor& tensor = table_.tensors[static_cast<std::size_t>(segment.parameter)];
  DeviceRun run(tensor, segment.parameter_begin, segment.numel);
  lane.cast(from, run.elements());
  run.finish();
}

void DeviceUpdate::for_each_run(std::int32_t bucket, OffloadedArray array,
                                const UseRun& use) const {
  const auto b = static_cast<std::size_t>(bucket);
  const BucketState& state = states_[b];
  const DeviceState::Arrays& arrays = device_state_.of(bucket);
  const bool is_master = array == OffloadedArray::kMaster;
  const bool is_parameter = is_master && layout_.buckets()[b].dtype == DType::kFloat32;
  for (const Segment& segment : state.stepped_segments) {
    if (is_parameter) {
      const at::Tensor dense = tensor_of(segment).detach().contiguous();
      use(segment, dense.view({-1}).narrow(0, segment.parameter_begin, segment.numel));
      continue;
    }
    const at::Tensor& values =
        is_master ? arrays.master : arrays.kept[static_cast<std::size_t>(array) - 1];
    use(segment, values.narrow(0, segment.bucket_begin - state.stepped.begin, segment.numel));
  }
}

void DeviceUpdate::refresh_masters() {
  const at::NoGradGuard no_grad;
  lane_.follow_present();
  {
    const c10::StreamGuard on_stream(lane_.stream());
    for (std::size_t b = 0; b < states_.size(); ++b) {
      if (layout_.buckets()[b].dtype == DType::kFloat32) continue;
      for_each_run(static_cast<std::int32_t>(b), OffloadedArray::kMaster,
                   [&](const Segment& segment, const at::Tensor& master) {
                     read_parameter(lane_, segment, master);
                   });
    }
  }
  lane_.lead_present();
}

void DeviceUpdate::restart_average() {
  if (arithmetic_.average_weight == 0) return;
  const at::NoGradGuard no_grad;
  lane_.follow_present();
  {
    const c10::StreamGuard on_stream(lane_.stream());
    for (std::size_t b = 0; b < states_.size(); ++b) {
      const auto bucket = static_cast<std::int32_t>(b);
      const at::Tensor& average = device_state_.of(bucket).kept[arithmetic_.rule.moments().size()];
      for_each_run(
          bucket, OffloadedArray::kMaster, [&](const Segment& segment, const at::Tensor& master) {
            lane_.cast(master, average.narrow(0, segment.bucket_begin - states_[b].stepped.begin,
                                              segment.numel));
          });
    }
  }
  lane_.lead_present();
}

void DeviceUpdate::put_average() {
  const at::NoGradGuard no_grad;
  lane_.follow_present();
  {
    const c10::StreamGuard on_stream(lane_.stream());
    for (std::size_t b = 0; b < states_.size(); ++b) {
      for_each_run(static_cast<std::int32_t>(b), kept_array(arithmetic_.rule.moments().size()),
                   [&](const Segment& segment, const at::Tensor& average) {
                     write_parameter(lane_, segment, average);
                   });
    }
  }
  lane_.lead_present();
}

}  // namespace zero
