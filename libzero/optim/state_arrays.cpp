#include "libzero/optim/state_arrays.h"

#include <algorithm>
#include <span>
#include <vector>

#include "libzero/kernels/cast.h"
#include "libzero/optim/tensor_runs.h"

namespace zero {
namespace {

void read_widened(const at::Tensor& tensor, const std::string& name, std::int64_t begin,
                  std::int64_t count, float* to) {
  const DType dtype = dtype_of(tensor, name);
  if (dtype == DType::kFloat32) return read_elements(tensor, begin, count, to);
  std::vector<std::byte> narrow(static_cast<std::size_t>(count * size_of(dtype)));
  read_elements(tensor, begin, count, narrow.data());
  cast_elements(narrow.data(), dtype, to, DType::kFloat32, count);
}

}  // namespace

Extent StateArrays::kept(std::int32_t parameter) const {
  const Slot slot = layout_.slot(parameter);
  const Interval stepped = states_[static_cast<std::size_t>(slot.bucket)].stepped;
  const std::int64_t begin = std::clamp<std::int64_t>(stepped.begin - slot.offset, 0, slot.numel);
  const std::int64_t end = std::clamp<std::int64_t>(stepped.end - slot.offset, 0, slot.numel);
  return {parameter, begin, std::max(begin, end)};
}

std::vector<OffloadedArray> StateArrays::arrays() const {
  std::vector<OffloadedArray> arrays = {OffloadedArray::kMaster};
  for (std::size_t i = 0; i < states_.front().kept.size(); ++i) arrays.push_back(kept_array(i));
  return arrays;
}

std::optional<OffloadedArray> StateArrays::average() const {
  const std::size_t index = index_of(states_.front(), StateKind::kEma);
  if (index == states_.front().kept.size()) return std::nullopt;
  return kept_array(index);
}

std::int64_t StateArrays::position(std::int32_t parameter, std::int64_t begin) const {
  const Slot slot = layout_.slot(parameter);
  return slot.offset + begin - states_[static_cast<std::size_t>(slot.bucket)].stepped.begin;
}

float* StateArrays::in_memory(std::int32_t parameter, OffloadedArray array,
                              std::int64_t begin) const {
  BucketState& state = states_[static_cast<std::size_t>(layout_.slot(parameter).bucket)];
  ArenaArray<float>& values = array == OffloadedArray::kMaster
                                  ? state.master
                                  : state.kept[static_cast<std::size_t>(array) - 1].values;
  return values.data() + position(parameter, begin);
}

void StateArrays::read(std::int32_t parameter, OffloadedArray array, std::int64_t begin,
                       std::int64_t count, float* to) const {
  const ParameterSpec& spec = table_.specs[static_cast<std::size_t>(parameter)];
  if (array == OffloadedArray::kMaster && spec.dtype == DType::kFloat32)
    return read_widened(table_.tensors[static_cast<std::size_t>(parameter)], spec.name, begin,
                        count, to);
  if (distant_ != nullptr)
    return distant_->read(layout_.slot(parameter).bucket, array, position(parameter, begin),
                          {to, static_cast<std::size_t>(count)});
  std::copy_n(in_memory(parameter, array, begin), count, to);
}

void StateArrays::write(std::int32_t parameter, OffloadedArray array, std::int64_t begin,
                        std::int64_t count, const float* from) const {
  if (distant_ != nullptr)
    return distant_->write(layout_.slot(parameter).bucket, array, position(parameter, begin),
                           {from, static_cast<std::size_t>(count)});
  std::copy_n(from, count, in_memory(parameter, array, begin));
}

void StateArrays::flush() const {
  if (distant_ != nullptr) distant_->flush();
}

}  // namespace zero
