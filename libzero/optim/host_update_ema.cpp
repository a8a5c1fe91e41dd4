#include <algorithm>
#include <vector>

#include "libzero/kernels/cast.h"
#include "libzero/kernels/ema.h"
#include "libzero/optim/host_update.h"
#include "libzero/optim/tensor_runs.h"

namespace zero {
namespace {

/// Elements of a step and its average at once: the masters are still in the cache.
constexpr std::int64_t kTogether = std::int64_t{1} << 13;
/// Elements that pass through memory at once, where they lie elsewhere.
constexpr std::int64_t kChunk = std::int64_t{1} << 16;

}  // namespace

void HostUpdate::step_run(std::int32_t group, const UpdateRun& run, float* average) const {
  if (average == nullptr) return arithmetic_.rule.step(group, run);
  for (std::int64_t begin = 0; begin < run.n; begin += kTogether) {
    const UpdateRun part = run.part(begin, std::min(run.n, begin + kTogether));
    arithmetic_.rule.step(group, part);
    ema_step(arithmetic_.average_weight, part.master, average + begin, part.n);
  }
}

void HostUpdate::for_each_run(std::int32_t bucket, OffloadedArray array, UseRun use) {
  const auto b = static_cast<std::size_t>(bucket);
  BucketState& state = states_[b];
  const bool is_parameter =
      array == OffloadedArray::kMaster && layout_.buckets()[b].dtype == DType::kFloat32;
  std::vector<float> chunk;
  for (const Segment& segment : state.stepped_segments) {
    const at::Tensor& tensor = table_.tensors[static_cast<std::size_t>(segment.parameter)];
    const std::int64_t origin = segment.bucket_begin - state.stepped.begin;
    if (!is_parameter && offload_ == nullptr) {
      ArenaArray<float>& values = array == OffloadedArray::kMaster
                                      ? state.master
                                      : state.kept[static_cast<std::size_t>(array) - 1].values;
      use(segment, 0, segment.numel, values.data() + origin);
      continue;
    }
    for (std::int64_t at = 0; at < segment.numel; at += kChunk) {
      chunk.resize(static_cast<std::size_t>(std::min(kChunk, segment.numel - at)));
      const auto count = static_cast<std::int64_t>(chunk.size());
      if (is_parameter) {
        read_elements(tensor, segment.parameter_begin + at, count, chunk.data());
      } else {
        offload_->read(bucket, array, origin + at, chunk);
      }
      use(segment, at, count, chunk.data());
    }
  }
}

void HostUpdate::restart_average() {
  if (arithmetic_.average_weight == 0) return;
  const std::size_t index = arithmetic_.rule.moments().size();
  for (std::size_t b = 0; b < states_.size(); ++b) {
    BucketState& state = states_[b];
    const auto bucket = static_cast<std::int32_t>(b);
    for_each_run(bucket, OffloadedArray::kMaster,
                 [&](const Segment& segment, std::int64_t at, std::int64_t count, float* master) {
                   const std::int64_t to = segment.bucket_begin - state.stepped.begin + at;
                   if (offload_ == nullptr) {
                     std::copy_n(master, count, state.kept[index].values.data() + to);
                   } else {
                     offload_->write(bucket, kept_array(index), to,
                                     {master, static_cast<std::size_t>(count)});
                   }
                 });
  }
  if (offload_ != nullptr) offload_->flush();
}

void HostUpdate::put_average() {
  for (std::size_t b = 0; b < states_.size(); ++b) {
    const DType dtype = layout_.buckets()[b].dtype;
    for_each_run(
        static_cast<std::int32_t>(b), kept_array(arithmetic_.rule.moments().size()),
        [&](const Segment& segment, std::int64_t at, std::int64_t count, const float* average) {
          at::Tensor& tensor = table_.tensors[static_cast<std::size_t>(segment.parameter)];
          WritableRun run(tensor, segment.parameter_begin + at, count);
          cast_elements(average, DType::kFloat32, run.data(), dtype, count);
          run.finish();
        });
  }
}

}  // namespace zero
