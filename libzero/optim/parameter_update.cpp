#include "libzero/optim/parameter_update.h"

#include <string>

#include "libzero/optim/tensor_runs.h"

namespace zero {
namespace {

std::string label_of(const char* what, std::int32_t bucket) {
  return std::string(what) + ", bucket " + std::to_string(bucket);
}

}  // namespace

ParameterUpdate::ParameterUpdate(const Layout& layout, ParameterTable& table,
                                 std::vector<BucketState>& states, Collective& comm,
                                 AlignedArray<std::byte>& staging, CommClock& clock)
    : layout_(layout),
      table_(table),
      states_(states),
      comm_(comm),
      staging_(staging),
      clock_(clock) {}

void ParameterUpdate::step_bucket(std::int32_t bucket, const float* gradient, std::int64_t origin,
                                  float gradient_factor,
                                  const std::vector<AdamWConstants>& constants) {
  BucketState& state = states_[static_cast<std::size_t>(bucket)];
  for (const Segment& segment : layout_.segments(bucket, state.stepped)) {
    const auto group =
        static_cast<std::size_t>(table_.specs[static_cast<std::size_t>(segment.parameter)].group);
    step_segment(segment, state, gradient + (segment.bucket_begin - origin), gradient_factor,
                 constants[group]);
  }
}

void ParameterUpdate::step_segment(const Segment& segment, BucketState& state,
                                   const float* gradient, float gradient_factor,
                                   const AdamWConstants& constants) {
  at::Tensor& tensor = table_.tensors[static_cast<std::size_t>(segment.parameter)];
  const DType dtype = table_.specs[static_cast<std::size_t>(segment.parameter)].dtype;
  const std::int64_t at = segment.bucket_begin - state.stepped.begin;
  float* const exp_avg = state.exp_avg.data() + at;
  float* const exp_avg_sq = state.exp_avg_sq.data() + at;
  WritableRun parameter(tensor, segment.parameter_begin, segment.numel);
  AdamWRun run;
  run.gradient = gradient;
  run.gradient_factor = gradient_factor;
  run.exp_avg = exp_avg;
  run.exp_avg_sq = exp_avg_sq;
  run.n = segment.numel;
  if (dtype == DType::kFloat32) {
    run.master = static_cast<float*>(parameter.data());
  } else {
    run.master = state.master.data() + at;
    run.low_precision = parameter.data();
    run.low_precision_dtype = dtype;
  }
  adamw_step(constants, run);
  parameter.finish();
}

void ParameterUpdate::gather_bucket(std::int32_t bucket) {
  const BucketState& state = states_[static_cast<std::size_t>(bucket)];
  const std::int64_t slice = state.accumulator.size();
  if (slice == 0) return;
  const DType dtype = layout_.buckets()[static_cast<std::size_t>(bucket)].dtype;
  const std::int64_t item = size_of(dtype);
  std::byte* const base = staging_.data();
  for (const Segment& segment : layout_.segments(bucket, state.owned)) {
    read_elements(table_.tensors[static_cast<std::size_t>(segment.parameter)],
                  segment.parameter_begin, segment.numel, base + segment.bucket_begin * item);
  }
  clock_.timed([&] {
    comm_
        .all_gather({base + comm_.rank() * slice * item, slice, dtype},
                    {base, slice * comm_.size(), dtype}, label_of("parameters", bucket))
        ->wait();
  });
  for (int rank = 0; rank < comm_.size(); ++rank) {
    if (rank == comm_.rank()) continue;
    for (const Segment& segment :
         layout_.segments(bucket, layout_.shard(bucket, rank, comm_.size()))) {
      write_elements(table_.tensors[static_cast<std::size_t>(segment.parameter)],
                     segment.parameter_begin, segment.numel, base + segment.bucket_begin * item);
    }
  }
}

const float* ParameterUpdate::gather_gradient(std::int32_t bucket) {
  const BucketState& state = states_[static_cast<std::size_t>(bucket)];
  const std::int64_t slice = state.accumulator.size();
  auto* const base = reinterpret_cast<float*>(staging_.data());
  if (slice == 0) return base;
  clock_.timed([&] {
    comm_
        .all_gather({state.accumulator.data(), slice, DType::kFloat32},
                    {base, slice * comm_.size(), DType::kFloat32},
                    label_of("summed gradients", bucket))
        ->wait();
  });
  return base;
}

void ParameterUpdate::refresh_masters() {
  for (std::size_t b = 0; b < states_.size(); ++b) {
    BucketState& state = states_[b];
    if (state.master.size() == 0) continue;
    for (const Segment& segment : layout_.segments(static_cast<std::int32_t>(b), state.stepped)) {
      const at::Tensor widened =
          table_.tensors[static_cast<std::size_t>(segment.parameter)].detach().to(at::kFloat);
      read_elements(widened, segment.parameter_begin, segment.numel,
                    state.master.data() + (segment.bucket_begin - state.stepped.begin));
    }
  }
}

}  // namespace zero
