#include "libzero/optim/host_update.h"

#include <algorithm>

#include "libzero/kernels/cast.h"
#include "libzero/optim/clipped_step.h"
#include "libzero/optim/tensor_runs.h"

namespace zero {

HostUpdate::HostUpdate(const Layout& layout, ParameterTable& table,
                       std::vector<BucketState>& states, Collective& comm,
                       AlignedArray<std::byte>& staging, CommClock& clock,
                       const UpdateArithmetic& arithmetic, OffloadedState* offload)
    : ParameterUpdate(arithmetic),
      layout_(layout),
      table_(table),
      states_(states),
      comm_(comm),
      staging_(staging),
      clock_(clock),
      offload_(offload) {}

void HostUpdate::step_bucket(std::int32_t bucket) {
  const ObservedScope scope(clock_.observer(), Activity::kUpdate, Lane::kTraining, bucket);
  if (is_offloaded(bucket)) return step_offloaded_bucket(bucket);
  BucketState& state = states_[static_cast<std::size_t>(bucket)];
  for (const Segment& segment : state.stepped_segments) {
    const std::int64_t at = segment.bucket_begin - state.owned.begin;
    step_segment(segment, state_of(segment, state), state.accumulator.data() + at, &on_threads_);
  }
}

/// A rule without moments keeps nothing of a float32 bucket: there is nothing to bring.
bool HostUpdate::is_offloaded(std::int32_t bucket) const {
  const auto b = static_cast<std::size_t>(bucket);
  return offload_ != nullptr &&
         (layout_.buckets()[b].dtype != DType::kFloat32 || !states_[b].kept.empty());
}

HostUpdate::StateRun HostUpdate::state_of(const Segment& segment, BucketState& state) {
  const std::int64_t at = segment.bucket_begin - state.stepped.begin;
  StateRun run{state.master.size() > 0 ? state.master.data() + at : nullptr, {}};
  for (std::size_t i = 0; i < state.kept.size(); ++i)
    run.kept[i] = state.kept[i].values.data() + at;
  return run;
}

void HostUpdate::step_segment(const Segment& segment, const StateRun& state, const float* gradient,
                              ThreadedStep* on_threads) {
  at::Tensor& tensor = table_.tensors[static_cast<std::size_t>(segment.parameter)];
  const ParameterSpec& spec = table_.specs[static_cast<std::size_t>(segment.parameter)];
  WritableRun parameter(tensor, segment.parameter_begin, segment.numel);
  UpdateRun run;
  run.gradient = gradient;
  run.gradient_factor = group_factors_.empty()
                            ? gradient_factor_
                            : group_factors_[static_cast<std::size_t>(spec.group)];
  std::copy_n(state.kept.begin(), arithmetic_.rule.moments().size(), run.moments.begin());
  run.n = segment.numel;
  if (spec.dtype == DType::kFloat32) {
    run.master = static_cast<float*>(parameter.data());
  } else {
    run.master = state.master;
    run.low_precision = parameter.data();
    run.low_precision_dtype = spec.dtype;
  }
  float* const average =
      arithmetic_.average_weight > 0 ? state.kept[arithmetic_.rule.moments().size()] : nullptr;
  const std::int32_t constants = table_.classes[static_cast<std::size_t>(segment.parameter)];
  const auto step_at = [&](const UpdateRun& part, std::int64_t at) {
    step_run(constants, part, average == nullptr ? nullptr : average + at);
  };
  const auto step = [&](std::int64_t begin, std::int64_t end) {
    if (value_limit_ == 0) return step_at(run.part(begin, end), begin);
    in_clipped_runs(run.part(begin, end), value_limit_,
                    [&](const UpdateRun& part, std::int64_t at) { step_at(part, begin + at); });
  };
  if (on_threads != nullptr) {
    (*on_threads)(run.n, step);
  } else {
    step(0, run.n);
  }
  parameter.finish();
}

/// Runs a collective on the communication thread.
template <typename Call>
void HostUpdate::collect(std::int32_t bucket, std::int64_t bytes, Call call) {
  const ObservedScope scope(clock_.observer(), Activity::kGather, Lane::kCommunication, bucket,
                            bytes);
  clock_.timed(call);
}

void HostUpdate::gather_bucket(std::int32_t bucket) {
  if (comm_.size() == 1) return;  // nobody else has stepped anything
  for (const BucketPiece& piece : states_[static_cast<std::size_t>(bucket)].pieces)
    gather_piece(bucket, piece);
}

void HostUpdate::gather_piece(std::int32_t bucket, const BucketPiece& piece) {
  const DType dtype = layout_.buckets()[static_cast<std::size_t>(bucket)].dtype;
  const std::int64_t item = size_of(dtype);
  std::byte* const base = staging_.data();
  for (const auto& [segment, rank, staged] : piece.runs) {
    if (rank != comm_.rank()) continue;
    read_elements(table_.tensors[static_cast<std::size_t>(segment.parameter)],
                  segment.parameter_begin, segment.numel, base + staged * item);
  }
  label_.begin("parameters, bucket ").add(bucket);
  collect(bucket, piece.count * comm_.size() * item, [&] {
    comm_
        .all_gather({base + comm_.rank() * piece.count * item, piece.count, dtype},
                    {base, piece.count * comm_.size(), dtype}, label_.text())
        ->wait();
  });
  for (const auto& [segment, rank, staged] : piece.runs) {
    if (rank == comm_.rank()) continue;
    write_elements(table_.tensors[static_cast<std::size_t>(segment.parameter)],
                   segment.parameter_begin, segment.numel, base + staged * item);
  }
}

void HostUpdate::gather_and_step_bucket(std::int32_t bucket) {
  BucketState& state = states_[static_cast<std::size_t>(bucket)];
  for (std::size_t i = 0; i < state.pieces.size(); ++i) {
    const BucketPiece& piece = state.pieces[i];
    const float* const gradient = gather_gradient(bucket, piece);
    const ObservedScope scope(clock_.observer(), Activity::kUpdate, Lane::kCommunication, bucket);
    if (is_offloaded(bucket)) {
      step_offloaded_piece(bucket, i, gradient);
      continue;
    }
    for (const auto& [segment, rank, staged] : piece.runs) {
      step_segment(segment, state_of(segment, state), gradient + staged);
    }
  }
}

/// One piece of the whole bucket's sum, in staging.
const float* HostUpdate::gather_gradient(std::int32_t bucket, const BucketPiece& piece) {
  const BucketState& state = states_[static_cast<std::size_t>(bucket)];
  auto* const base = reinterpret_cast<float*>(staging_.data());
  label_.begin("summed gradients, bucket ").add(bucket);
  collect(bucket, piece.count * comm_.size() * size_of(DType::kFloat32), [&] {
    comm_
        .all_gather({state.accumulator.data() + piece.begin, piece.count, DType::kFloat32},
                    {base, piece.count * comm_.size(), DType::kFloat32}, label_.text())
        ->wait();
  });
  return base;
}

void HostUpdate::refresh_masters() {
  for (std::size_t b = 0; b < states_.size(); ++b) {
    BucketState& state = states_[b];
    if (offload_ != nullptr) refresh_offloaded_masters(static_cast<std::int32_t>(b));
    if (state.master.size() == 0) continue;
    for (const Segment& segment : state.stepped_segments) {
      const auto p = static_cast<std::size_t>(segment.parameter);
      const at::Tensor dense = table_.tensors[p].detach().contiguous();
      cast_elements(contiguous_element(dense, segment.parameter_begin), table_.specs[p].dtype,
                    state.master.data() + (segment.bucket_begin - state.stepped.begin),
                    DType::kFloat32, segment.numel);
    }
  }
  if (offload_ != nullptr) offload_->flush();
}

}  // namespace zero
