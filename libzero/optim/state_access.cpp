#include "libzero/optim/state_access.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "libzero/base/error.h"
#include "libzero/collective/all_or_none.h"
#include "libzero/optim/tensor_runs.h"

namespace zero {
namespace {

/// Where the state of a segment lies; nullptr for the master of a float32 parameter, which is the
/// parameter itself.
float* state_values(BucketState& state, StateKind kind, const Segment& segment) {
  const std::int64_t at = segment.bucket_begin - state.stepped.begin;
  if (kind == StateKind::kGradient)
    return state.accumulator.data() + (segment.bucket_begin - state.owned.begin);
  if (kind == StateKind::kMaster)
    return state.master.size() > 0 ? state.master.data() + at : nullptr;
  return state.kept[index_of(state, kind)].values.data() + at;
}

std::optional<OffloadedArray> offloaded_array(const BucketState& state, StateKind kind,
                                              DType dtype) {
  if (kind == StateKind::kMaster && dtype != DType::kFloat32) return OffloadedArray::kMaster;
  const std::size_t index = index_of(state, kind);
  return index < state.kept.size() ? std::optional(kept_array(index)) : std::nullopt;
}

}  // namespace

StateAccess::StateAccess(const Layout& layout, ParameterTable& table,
                         std::vector<BucketState>& states, Collective& comm, DistantState* distant)
    : layout_(layout), table_(table), states_(states), comm_(comm), distant_(distant) {}

void StateAccess::require_kept(StateKind kind) const {
  if (kind == StateKind::kMaster || kind == StateKind::kGradient) return;
  const std::vector<KeptArray>& kept = states_.front().kept;  // there is a bucket
  if (index_of(states_.front(), kind) < kept.size()) return;
  std::string names = "master";
  for (const KeptArray& array : kept) names += std::string(", ") + name_of(array.kind);
  throw ContractError("optimizer: its update rule keeps no such state: " +
                      std::string(name_of(kind)) + "; it keeps " + names);
}

std::int32_t StateAccess::owner_index(const std::string& name) const {
  for (std::size_t i = 0; i < table_.specs.size(); ++i) {
    const ParameterSpec& spec = table_.specs[i];
    if (spec.name != name) continue;
    ZERO_REQUIRE(spec.trainable, "optimizer: parameter is frozen and has no state: " + name);
    return spec.alias_of >= 0 ? spec.alias_of : static_cast<std::int32_t>(i);
  }
  throw ContractError("optimizer: the model has no parameter of this name: " + name);
}

Segment StateAccess::owned_segment(std::int32_t parameter, int rank) const {
  const std::int32_t bucket = layout_.slot(parameter).bucket;
  for (const Segment& segment :
       layout_.segments(bucket, layout_.shard(bucket, rank, comm_.size()))) {
    if (segment.parameter == parameter) return segment;
  }
  return {.parameter = parameter};
}

at::Tensor StateAccess::gather(const std::string& name, StateKind kind) {
  const std::int32_t parameter = owner_index(name);
  const auto p = static_cast<std::size_t>(parameter);
  at::Tensor result = at::empty(table_.specs[p].shape, at::TensorOptions().dtype(at::kFloat));
  std::vector<Segment> parts;
  std::int64_t largest = 0;
  for (int rank = 0; rank < comm_.size(); ++rank) {
    parts.push_back(owned_segment(parameter, rank));
    largest = std::max(largest, parts.back().numel);
  }
  if (largest == 0) return result;  // a zero-size parameter
  std::vector<float> all(static_cast<std::size_t>(largest) * parts.size());
  float* const mine = all.data() + comm_.rank() * largest;
  const Segment& own = parts[static_cast<std::size_t>(comm_.rank())];
  if (distant_ == nullptr) {
    copy_own(kind, own, mine);
  } else {  // a disk or a GPU can fail on one rank
    all_or_none(comm_, "state of " + name, [&] { copy_own(kind, own, mine); });
  }
  comm_
      .all_gather({mine, largest, DType::kFloat32},
                  {all.data(), static_cast<std::int64_t>(all.size()), DType::kFloat32},
                  "state of " + name)
      ->wait();
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    const auto begin = all.begin() + static_cast<std::int64_t>(rank) * largest;
    std::copy(begin, begin + parts[rank].numel,
              result.data_ptr<float>() + parts[rank].parameter_begin);
  }
  return result;
}

void StateAccess::copy_own(StateKind kind, const Segment& segment, float* to) {
  if (segment.numel == 0) return;
  const std::int32_t bucket = layout_.slot(segment.parameter).bucket;
  const std::int64_t at =
      segment.bucket_begin - states_[static_cast<std::size_t>(bucket)].owned.begin;
  if (kind == StateKind::kGradient && distant_ != nullptr &&
      distant_->read_gradients(bucket, at, {to, static_cast<std::size_t>(segment.numel)}))
    return;
  visit_segment(kind, segment, [&](const ShardView& view) {
    std::copy(view.values.begin(), view.values.end(), to + (view.begin - segment.parameter_begin));
  });
}

void StateAccess::for_each_shard(StateKind kind,
                                 const std::function<void(const ShardView&)>& visit) {
  require_kept(kind);
  for (std::size_t i = 0; i < table_.specs.size(); ++i) {
    const auto parameter = static_cast<std::int32_t>(i);
    if (!table_.specs[i].trainable || table_.specs[i].alias_of >= 0) continue;
    const Segment segment = owned_segment(parameter, comm_.rank());
    if (segment.numel > 0) visit_segment(kind, segment, visit);
  }
  if (distant_ != nullptr) distant_->flush();
}

void StateAccess::visit_distant(OffloadedArray array, const Segment& segment,
                                const std::function<void(const ShardView&)>& visit) {
  const std::int32_t bucket = layout_.slot(segment.parameter).bucket;
  const std::int64_t first =
      segment.bucket_begin - states_[static_cast<std::size_t>(bucket)].stepped.begin;
  const std::string& name = table_.specs[static_cast<std::size_t>(segment.parameter)].name;
  distant_->visit(bucket, array, first, first + segment.numel,
                  [&](std::int64_t at, std::span<float> values) {
                    const std::int64_t begin = segment.parameter_begin + (at - first);
                    visit({name, segment.parameter, begin,
                           begin + static_cast<std::int64_t>(values.size()), values});
                  });
}

void StateAccess::visit_segment(StateKind kind, const Segment& segment,
                                const std::function<void(const ShardView&)>& visit) {
  const auto p = static_cast<std::size_t>(segment.parameter);
  BucketState& state = states_[static_cast<std::size_t>(layout_.slot(segment.parameter).bucket)];
  const auto array = offloaded_array(state, kind, table_.specs[p].dtype);
  if (distant_ != nullptr && array) return visit_distant(*array, segment, visit);
  float* const values = state_values(state, kind, segment);
  const auto show = [&](float* data) {
    visit({table_.specs[p].name, segment.parameter, segment.parameter_begin,
           segment.parameter_begin + segment.numel,
           std::span<float>(data, static_cast<std::size_t>(segment.numel))});
  };
  if (values != nullptr) return show(values);
  WritableRun parameter(table_.tensors[p], segment.parameter_begin, segment.numel);
  show(static_cast<float*>(parameter.data()));
  parameter.finish();
}

}  // namespace zero
