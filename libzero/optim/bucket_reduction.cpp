#include "libzero/optim/bucket_reduction.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "libzero/optim/tensor_runs.h"

namespace zero {

BucketReduction::BucketReduction(const Layout& layout, const ParameterTable& table,
                                 std::vector<BucketState>& states, Collective& comm,
                                 AlignedArray<std::byte>& staging, CommClock& clock,
                                 std::vector<DType> wire)
    : layout_(layout),
      table_(table),
      states_(states),
      comm_(comm),
      staging_(staging),
      clock_(clock),
      wire_(std::move(wire)) {}

void BucketReduction::pack(std::int32_t bucket, const std::vector<at::Tensor>& gradients,
                           bool zero_after) {
  const auto b = static_cast<std::size_t>(bucket);
  const DType wire = wire_[b];
  const std::int64_t item = size_of(wire);
  const std::int64_t padded = states_[b].accumulator.size() * comm_.size();
  std::byte* const base = staging_.data();
  const Bucket& description = layout_.buckets()[b];
  std::int64_t filled = 0;  // everything before this flat position is written
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    const Slot slot = layout_.slot(description.parameters[i]);
    std::memset(base + filled * item, 0, static_cast<std::size_t>((slot.offset - filled) * item));
    pack_tensor(gradients[i], scalar_type_of(wire), base + slot.offset * item);
    if (zero_after) zero_elements(gradients[i]);
    filled = slot.offset + slot.numel;
  }
  std::memset(base + filled * item, 0, static_cast<std::size_t>((padded - filled) * item));
}

void BucketReduction::reduce(std::int32_t bucket, bool accumulate, const std::string& label) {
  BucketState& state = states_[static_cast<std::size_t>(bucket)];
  const std::int64_t slice = state.accumulator.size();
  if (slice == 0) return;  // nothing but zero-size parameters
  const DType wire = wire_[static_cast<std::size_t>(bucket)];
  clock_.timed([&] {
    comm_
        .reduce_scatter({staging_.data(), slice * comm_.size(), wire},
                        {state.accumulator.data(), slice, DType::kFloat32},
                        {accumulate, nullptr, label, state.block_sums.data()})
        ->wait();
  });
}

std::string BucketReduction::name(std::int32_t bucket) const {
  const std::vector<std::int32_t>& parameters =
      layout_.buckets()[static_cast<std::size_t>(bucket)].parameters;
  const auto name_of_parameter = [this](std::int32_t p) {
    return table_.specs[static_cast<std::size_t>(p)].name;
  };
  return "bucket " + std::to_string(bucket) + " (" + name_of_parameter(parameters.front()) +
         " .. " + name_of_parameter(parameters.back()) + ")";
}

}  // namespace zero
