#include "libzero/optim/checkpoint_state.h"

#include <cstring>
#include <exception>
#include <utility>

#include "checkpoint/ownership.h"
#include "libzero/optim/checkpoint_rows.h"
#include "libzero/optim/group_options.h"
#include "libzero/optim/random_state.h"
#include "libzero/optim/tensor_runs.h"
#include "libzero/optim/trainer_keys.h"

namespace zero {
namespace {

using checkpoint::CommonState;
using checkpoint::StateView;

constexpr const char* kUnnamedRun = "run";
constexpr DType kKnownDTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kInt64,
                                  DType::kUInt8};

/// Empty where the counter says it for all.
std::vector<std::int64_t> applied_to_rows(const CheckpointSource& source, std::size_t rows) {
  const std::vector<ParameterSpec>& specs = source.table.specs;
  std::vector<std::int64_t> applied(rows, 0);
  bool is_needed = false;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (!specs[i].trainable) continue;
    const auto owner = specs[i].alias_of >= 0 ? static_cast<std::size_t>(specs[i].alias_of) : i;
    applied[i] = source.steps_applied - source.begun[owner];
    is_needed = is_needed || source.begun[owner] != 0;
  }
  return is_needed ? applied : std::vector<std::int64_t>();
}

CommonState make_common(const CheckpointSource& source, const TrainerState& trainer) {
  CommonState common;
  common.step = source.steps_taken;
  common.run_id = trainer.run_id.empty() ? kUnnamedRun : trainer.run_id;
  common.stage = source.stage;
  common.parameters = checkpoint_rows(source.table, source.buffers);
  common.applied_steps = applied_to_rows(source, common.parameters.size());
  for (const OptionValues& group : source.groups)
    common.groups.push_back(named_options(source.rule, group));
  common.scaler = source.scaler;
  common.counters = trainer.counters;
  common.counters[std::string(kAppliedSteps)] = source.steps_applied;
  checkpoint::put_layout_options(common, source.layout.options());
  common.blobs = trainer.blobs;
  put_rule(source.rule.name(), common);
  return common;
}

/// Fills the views of one rank.
class Views {
 public:
  Views(const CheckpointSource& source, CheckpointState& result)
      : source_(source), result_(result) {}

  void add_all() {
    const checkpoint::Ownership ownership(result_.common, source_.world_size);
    const std::vector<Extent> extents = ownership.trainable(source_.rank);
    auto& states = result_.part.state.states;
    const auto add_state = [&](StateKind kind, OffloadedArray array, auto data_of) {
      StateView view{name_of(kind), DType::kFloat32, {}, {}};
      if (source_.distant != nullptr) {
        view.extents = extents;
        view.fill = filler_of(array);
      } else {
        for (const Extent& extent : extents) add(view, extent, data_of(extent));
      }
      states.push_back(std::move(view));
    };
    add_state(StateKind::kMaster, OffloadedArray::kMaster,
              [this](const Extent& extent) { return master_of(extent); });
    const std::vector<KeptArray>& kept = source_.states.front().kept;
    for (std::size_t i = 0; i < kept.size(); ++i) {
      add_state(kept[i].kind, kept_array(i),
                [this, i](const Extent& extent) { return kept_of(extent, i); });
    }
    for (const DType dtype : kKnownDTypes) {
      StateView value{"value", dtype, {}, {}};
      for (const Extent& extent : ownership.frozen(source_.rank)) {
        if (row(extent).dtype == dtype) add(value, extent, value_of(extent));
      }
      if (!value.extents.empty()) states.push_back(std::move(value));
    }
  }

 private:
  const ParameterSpec& row(const Extent& extent) const {
    return result_.common.parameters[static_cast<std::size_t>(extent.parameter)];
  }

  static void add(StateView& view, const Extent& extent, const void* data) {
    const std::int64_t bytes = (extent.end - extent.begin) * size_of(view.dtype);
    view.extents.push_back(extent);
    view.pieces.emplace_back(static_cast<const std::byte*>(data), static_cast<std::size_t>(bytes));
  }

  /// Called long after this object is gone, as long as the optimizer stays as it is.
  std::function<void(const Extent&, std::span<std::byte>)> filler_of(OffloadedArray array) const {
    return [array, &table = source_.table, &layout = source_.layout, &states = source_.states,
            distant = source_.distant](const Extent& part, std::span<std::byte> dst) {
      const auto p = static_cast<std::size_t>(part.parameter);
      if (array == OffloadedArray::kMaster && table.specs[p].dtype == DType::kFloat32)
        return read_elements(table.tensors[p], part.begin, part.end - part.begin, dst.data());
      const Slot slot = layout.slot(part.parameter);
      const std::int64_t origin = states[static_cast<std::size_t>(slot.bucket)].stepped.begin;
      std::vector<float> values(static_cast<std::size_t>(part.end - part.begin));
      distant->read(slot.bucket, array, slot.offset + part.begin - origin, values);
      std::memcpy(dst.data(), values.data(), dst.size());
    };
  }

  const BucketState& state_of(const Extent& extent) const {
    return source_.states[static_cast<std::size_t>(source_.layout.slot(extent.parameter).bucket)];
  }

  const float* element_of(const ArenaArray<float>& array, const Extent& extent) const {
    const std::int64_t offset = source_.layout.slot(extent.parameter).offset;
    return array.data() + (offset + extent.begin - state_of(extent).stepped.begin);
  }

  const void* kept_of(const Extent& extent, std::size_t index) const {
    return element_of(state_of(extent).kept[index].values, extent);
  }

  const void* master_of(const Extent& extent) {
    if (row(extent).dtype != DType::kFloat32) return element_of(state_of(extent).master, extent);
    return elements_of(source_.table.tensors[static_cast<std::size_t>(extent.parameter)],
                       extent.begin, extent.end - extent.begin);
  }

  const void* value_of(const Extent& extent) {
    const auto index = static_cast<std::size_t>(extent.parameter);
    const std::size_t parameters = source_.table.specs.size();
    if (index < parameters) {
      return elements_of(source_.table.tensors[index], extent.begin, extent.end - extent.begin);
    }
    const at::Tensor& buffer =
        source_.buffers[index - parameters].tensor;  // belongs to rank 0 whole
    return elements_of(buffer, 0, buffer.numel());
  }

  const void* elements_of(const at::Tensor& tensor, std::int64_t begin, std::int64_t count) {
    if (const void* data = contiguous_element(tensor, begin)) return data;
    auto& copy =
        result_.copies.emplace_back(count * static_cast<std::int64_t>(tensor.element_size()));
    read_elements(tensor, begin, count, copy.data());
    return copy.data();
  }

  const CheckpointSource& source_;
  CheckpointState& result_;
};

/// Empty, or why this cannot be saved, whoever asks.
std::string fault_of_model(const CheckpointSource& source) {
  std::string fault = first_reshaped(source.model);
  if (fault.empty()) fault = first_refrozen(source.model);
  if (fault.empty()) fault = fault_of(source.rule, source.groups, "save");
  for (const NamedTensor& buffer : source.buffers) {
    if (!fault.empty()) break;
    try {
      require_dense(buffer, "buffer", source.model.device);
    } catch (const ContractError& error) {
      fault = error.what();
    }
  }
  return fault;
}

}  // namespace

CheckpointState make_checkpoint_state(const CheckpointSource& source, const TrainerState& trainer) {
  CheckpointState result;
  result.common.step = source.steps_taken;  // a refusal's error names it
  std::string& refusal = result.part.refusal;
  refusal = source.refusal;
  try {
    if (refusal.empty()) refusal = problem_of_keys(trainer);
    if (refusal.empty()) refusal = fault_of_model(source);
    if (!refusal.empty()) return result;
    result.common = make_common(source, trainer);
    checkpoint::validate(result.common);
    Views(source, result).add_all();
    result.part.state.blobs = trainer.rank_blobs;
    for (const c10::Device device : {c10::Device(c10::kCPU), source.model.device})
      result.part.state.blobs[random_key(device.type())] = random_state(device);
    result.part.state.blobs[std::string(checkpoint::kRankMemory)] = to_blob(source.memory);
  } catch (const std::exception& error) {  // also out of memory: the other ranks wait for this one
    refusal = error.what();
  }
  return result;
}

}  // namespace zero
