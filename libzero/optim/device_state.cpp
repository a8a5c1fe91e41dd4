#include "libzero/optim/device_state.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/StreamGuard.h>

#include <algorithm>

#include "libzero/kernels/block_norm.h"

namespace zero {
namespace {

constexpr std::int64_t kAlignment = 512;
/// Elements that pass through host memory at once.
constexpr std::int64_t kChunk = std::int64_t{1} << 20;

std::int64_t padded(std::int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

std::int64_t blocks_of(std::int64_t elements) {
  return (elements + kNormBlock - 1) / kNormBlock;
}

/// Hands out arrays; without memory it only counts.
class Cutter {
 public:
  explicit Cutter(at::Tensor memory = {}) : memory_(std::move(memory)) {}

  at::Tensor take(std::int64_t elements, at::ScalarType type) {
    const auto bytes = elements * static_cast<std::int64_t>(c10::elementSize(type));
    const std::int64_t begin = std::exchange(used_, used_ + padded(bytes));
    return memory_.defined() ? memory_.narrow(0, begin, bytes).view(type) : at::Tensor();
  }
  std::int64_t used() const { return used_; }

 private:
  at::Tensor memory_;
  std::int64_t used_ = 0;
};

template <class T>
at::Tensor tensor_over(std::span<T> values, at::ScalarType type) {
  return at::from_blob(values.data(), {static_cast<std::int64_t>(values.size())}, type);
}

}  // namespace

DeviceState::DeviceState(DeviceLane& lane, const Layout& layout,
                         const std::vector<BucketState>& states, int world_size)
    : lane_(lane), states_(states), arrays_(states.size()) {
  const at::NoGradGuard no_grad;
  const auto cut = [&](Cutter& cutter) {
    for (std::size_t b = 0; b < states.size(); ++b) {
      Arrays& arrays = arrays_[b];
      const std::int64_t sums = layout.padded_shard_numel(static_cast<std::int32_t>(b), world_size);
      const std::int64_t stepped = states[b].stepped.size();
      arrays.accumulator = cutter.take(sums, at::kFloat);
      arrays.block_sums = cutter.take(blocks_of(sums), at::kDouble);
      if (layout.buckets()[b].dtype != DType::kFloat32)
        arrays.master = cutter.take(stepped, at::kFloat);
      for (std::size_t i = 0; i < states[b].kept.size(); ++i)
        arrays.kept[i] = cutter.take(stepped, at::kFloat);
    }
  };
  Cutter counter;
  cut(counter);
  bytes_ = counter.used();
  memory_ = lane.allocate(bytes_);
  Cutter cutter(memory_);
  cut(cutter);
}

const at::Tensor& DeviceState::tensor(std::int32_t bucket, OffloadedArray array) const {
  const Arrays& arrays = of(bucket);
  return array == OffloadedArray::kMaster ? arrays.master
                                          : arrays.kept[static_cast<std::size_t>(array) - 1];
}

void DeviceState::copy_out(const at::Tensor& from, std::int64_t begin, const at::Tensor& to) const {
  if (to.numel() == 0) return;
  const at::NoGradGuard no_grad;
  lane_.synchronize("state on the GPU that is to be read");
  const c10::StreamGuard on_stream(lane_.stream());
  to.copy_(from.narrow(0, begin, to.numel()));
}

void DeviceState::read(std::int32_t bucket, OffloadedArray array, std::int64_t begin,
                       std::span<float> to) {
  copy_out(tensor(bucket, array), begin, tensor_over(to, at::kFloat));
}

bool DeviceState::read_gradients(std::int32_t bucket, std::int64_t begin, std::span<float> to) {
  copy_out(of(bucket).accumulator, begin, tensor_over(to, at::kFloat));
  return true;
}

void DeviceState::read_block_sums(std::int32_t bucket, std::int64_t begin,
                                  std::span<double> to) const {
  copy_out(of(bucket).block_sums, begin, tensor_over(to, at::kDouble));
}

void DeviceState::write(std::int32_t bucket, OffloadedArray array, std::int64_t begin,
                        std::span<const float> from) {
  if (from.empty()) return;
  const at::NoGradGuard no_grad;
  lane_.synchronize("state on the GPU that is to be written");
  const c10::StreamGuard on_stream(lane_.stream());
  const auto count = static_cast<std::int64_t>(from.size());
  tensor(bucket, array)
      .narrow(0, begin, count)
      .copy_(at::from_blob(const_cast<float*>(from.data()), {count}, at::kFloat));
}

void DeviceState::visit(std::int32_t bucket, OffloadedArray array, std::int64_t begin,
                        std::int64_t end, const Visit& visit) {
  std::vector<float> values;
  for (std::int64_t at = begin; at < end; at += kChunk) {
    values.resize(static_cast<std::size_t>(std::min(kChunk, end - at)));
    read(bucket, array, at, values);
    visit(at, values);
    write(bucket, array, at, values);
  }
}

void DeviceState::add_to(MemoryReport& report) const {
  std::int64_t useful = 0, sums = 0;
  const auto add = [&](const at::Tensor& array, std::int64_t elements, std::int64_t& kind) {
    if (!array.defined()) return;
    const std::int64_t bytes = elements * static_cast<std::int64_t>(sizeof(float));
    kind += bytes;
    useful += bytes;
  };
  for (std::size_t b = 0; b < states_.size(); ++b) {
    const std::int64_t owned = numel_of(states_[b].owned_segments);
    const std::int64_t stepped = numel_of(states_[b].stepped_segments);
    add(arrays_[b].accumulator, owned, report.accumulator);
    add(arrays_[b].master, stepped, report.master);
    for (std::size_t i = 0; i < states_[b].kept.size(); ++i)
      add(arrays_[b].kept[i], stepped, bytes_of(report, states_[b].kept[i].kind));
    sums += static_cast<std::int64_t>(arrays_[b].block_sums.nbytes());
  }
  report.block_sums += sums;
  report.alignment += bytes_ - useful - sums;
}

}  // namespace zero
