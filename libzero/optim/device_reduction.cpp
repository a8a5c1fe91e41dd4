#include "libzero/optim/device_reduction.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

#include "libzero/kernels/block_norm.h"
#include "libzero/optim/pinned_memory.h"

namespace zero {

DeviceReduction::DeviceReduction(const Layout& layout, const ParameterTable& table,
                                 const std::vector<BucketState>& states, DeviceState& device_state,
                                 DeviceLane& lane, DevicePayload& payload, at::Tensor staging,
                                 CommClock& clock, std::vector<DType> wire, int world_size)
    : BucketReduction(layout, table, states),
      layout_(layout),
      device_state_(device_state),
      lane_(lane),
      payload_(payload),
      staging_(std::move(staging)),
      clock_(clock),
      wire_(std::move(wire)),
      world_size_(world_size),
      marks_(lane.device(), states.size()),
      held_{Held(lane.device().type()), Held(lane.device().type())},
      packed_(lane.device().type()) {
  for (std::size_t b = 0; b < states.size(); ++b)
    if (!states[b].pieces.empty()) last_bucket_ = static_cast<std::int32_t>(b);
}

void DeviceReduction::before_backward() {
  if (!packed_.was_marked_for_recording()) return;
  packed_.block(c10::impl::VirtualGuardImpl(lane_.device().type()).getStream(lane_.device()));
}

DeviceReduction::~DeviceReduction() {
  if (lane_.comes_to_rest()) return;
  for (Held& held : held_) keep_for_good(std::move(held.tensors));
}

void DeviceReduction::let_go() noexcept {
  for (Held& held : held_) {
    held.tensors.clear();
    held.is_recorded = false;
  }
}

void DeviceReduction::await(Held& held, std::int32_t bucket) {
  if (held.tensors.empty()) return;
  if (held.is_recorded) {
    lane_.await(held.read, "gradients to be read before those of " + name(bucket));
  } else {
    lane_.synchronize("gradients to be read before those of " + name(bucket));
  }
  held.tensors.clear();
  held.is_recorded = false;
}

void DeviceReduction::prepare(std::int32_t bucket, std::vector<Contribution>& by_parameter,
                              bool zero_after) {
  const at::NoGradGuard no_grad;
  const c10::StreamGuard on_stream(lane_.stream());
  Held& held = held_[next_held_];
  await(held, bucket);
  marks_.block(bucket, lane_.stream());
  for (const std::int32_t p : layout_.buckets()[static_cast<std::size_t>(bucket)].parameters) {
    at::Tensor& gradient = by_parameter[static_cast<std::size_t>(p)].gradient;
    if (!gradient.defined()) continue;
    held.tensors.push_back(gradient);
    const auto dtype = known_dtype(gradient.scalar_type());
    const bool is_known = dtype && is_floating(*dtype);
    if (is_known && gradient.is_contiguous() && gradient.device() == lane_.device()) continue;
    const at::Tensor original = gradient;
    const at::ScalarType type = is_known ? original.scalar_type() : at::kFloat;
    gradient = original.detach().to(lane_.device(), type).contiguous();
    held.tensors.push_back(gradient);
    if (zero_after) original.zero_();
  }
}

void DeviceReduction::copy_run(const StagedRun& run, Contribution& from, const at::Tensor& to,
                               bool zero_after) {
  const std::int64_t first = run.segment.parameter_begin;
  const std::int64_t numel = run.segment.numel;
  const at::Tensor target = to.narrow(0, run.staged, numel);
  if (from.sum != nullptr) {  // in host memory, from calls inside no_sync()
    target.copy_(at::from_blob(const_cast<float*>(from.sum) + first, {numel}, at::kFloat));
    return;
  }
  const at::Tensor source = from.gradient.view({-1}).narrow(0, first, numel);
  lane_.cast(source, target);
  if (zero_after) source.zero_();
}

void DeviceReduction::pack(std::int32_t bucket, const BucketPiece& piece,
                           std::vector<Contribution>& by_parameter, bool zero_after) {
  const ObservedScope scope(clock_.observer(), Activity::kPack, Lane::kCommunication, bucket);
  const at::NoGradGuard no_grad;
  const c10::StreamGuard on_stream(lane_.stream());
  const at::Tensor staging = staging_.view(scalar_type_of(wire_[static_cast<std::size_t>(bucket)]));
  std::int64_t filled = 0;  // everything before this position is written
  const auto fill_to = [&](std::int64_t end) {
    if (end > filled) staging.narrow(0, filled, end - filled).zero_();
  };
  for (const StagedRun& run : piece.runs) {
    payload_.make_room_for_launch();
    Contribution& from = by_parameter[static_cast<std::size_t>(run.segment.parameter)];
    if (!from.gradient.defined() && from.sum == nullptr) continue;
    fill_to(run.staged);
    copy_run(run, from, staging, zero_after);
    filled = run.staged + run.segment.numel;
  }
  fill_to(piece.count * world_size_);
  packed_.record(lane_.stream());
  if (&piece != &pieces(bucket).back()) return;
  held_[next_held_].read.record(lane_.stream());
  held_[next_held_].is_recorded = true;
  next_held_ = (next_held_ + 1) % held_.size();
}

void DeviceReduction::reduce(std::int32_t bucket, const BucketPiece& piece, bool accumulate,
                             const CallName& name) {
  const at::NoGradGuard no_grad;
  const c10::StreamGuard on_stream(lane_.stream());
  const DeviceState::Arrays& arrays = device_state_.of(bucket);
  const DType wire = wire_[static_cast<std::size_t>(bucket)];
  const std::int64_t staged = piece.count * world_size_;
  const std::string_view label =
      label_of(bucket, piece, piece.count == arrays.accumulator.numel(), name);
  const ObservedScope scope(clock_.observer(), Activity::kReduce, Lane::kCommunication, bucket,
                            staged * size_of(wire));
  const std::int64_t blocks = (piece.count + kNormBlock - 1) / kNormBlock;
  const bool is_last = bucket == last_bucket_ && &piece == &pieces(bucket).back();
  clock_.timed([&] {
    payload_.reduce_scatter(lane_, staging_.view(scalar_type_of(wire)).narrow(0, 0, staged),
                            arrays.accumulator.narrow(0, piece.begin, piece.count), accumulate,
                            arrays.block_sums.narrow(0, piece.begin / kNormBlock, blocks), label);
    if (is_last) payload_.settle();
  });
}

}  // namespace zero
