#include "model.h"

#include <algorithm>
#include <deque>
#include <set>

#include "../sample.h"

namespace zero::checkpoint {
namespace {

void add_extras(std::vector<ParameterSpec>& rows) {
  const auto trainable = static_cast<std::int32_t>(rows.size());
  rows.push_back({"tied", rows[0].shape, rows[0].dtype, 0, true, 0});
  rows.push_back({"scalar", {}, DType::kFloat16, 0, true, -1});
  rows.push_back({"empty", {0, 3}, DType::kFloat32, 0, true, -1});
  rows.push_back({"frozen_half", {3, 19}, DType::kFloat16, 0, false, -1});
  rows.push_back({"frozen_one", {1}, DType::kBFloat16, 0, false, -1});
  rows.push_back({"frozen_float", {1000}, DType::kFloat32, 0, false, -1});
  rows.push_back({"frozen_tied", {3, 19}, DType::kFloat16, 0, false, trainable + 3});
  rows.push_back({"batches", {}, DType::kInt64, -1, false, -1});
  rows.push_back({"mean", {97}, DType::kFloat32, -1, false, -1});
  rows.push_back({"mask", {17}, DType::kUInt8, -1, false, -1});
  rows.push_back({"nothing", {0}, DType::kUInt8, -1, false, -1});
}

/// One view with the memory that it points to.
StateView view_of(const Model& model, const std::pair<std::string, DType>& kind,
                  const std::vector<Extent>& extents, std::deque<std::vector<std::byte>>& memory) {
  StateView view{kind.first, kind.second, {}, {}};
  for (const Extent& extent : extents) {
    const auto kinds = kinds_of(model, static_cast<std::size_t>(extent.parameter));
    if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) continue;
    view.extents.push_back(extent);
    memory.push_back(elements(model, kind.first, kind.second, extent));
    view.pieces.emplace_back(memory.back());
  }
  return view;
}

}  // namespace

Model make_model(const std::vector<std::int64_t>& sizes, const LayoutOptions& options,
                 bool extras) {
  Model model;
  CommonState& common = model.common;
  common.step = 7;
  common.run_id = "model";
  common.stage = 2;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const DType dtype = i % 3 == 1 ? DType::kBFloat16 : DType::kFloat32;
    common.parameters.push_back(
        {"p" + std::to_string(i), {sizes[i]}, dtype, static_cast<std::int32_t>(i % 2), true, -1});
  }
  if (extras) add_extras(common.parameters);
  common.groups = {{{"lr", 0.1}}, {{"lr", 0.3}}};
  common.scaler = {1024, 3, 1, 2};
  common.counters = {{"samples_seen", 4711}};
  common.blobs = {{"schedule", Blob(5, std::byte{9})}};
  put_layout_options(common, options);
  return model;
}

std::vector<std::pair<std::string, DType>> kinds_of(const Model& model, std::size_t row) {
  const ParameterSpec& spec = model.common.parameters[row];
  std::vector<std::pair<std::string, DType>> kinds;
  if (spec.numel() == 0) return kinds;
  if (model.further_states && row % 4 == 0) {
    kinds.emplace_back(spec.trainable ? "average" : "scratch",
                       spec.trainable ? DType::kBFloat16 : DType::kInt64);
  }
  if (!spec.trainable) {
    kinds.emplace_back("value", spec.dtype);
  } else {
    if (model.moments) {
      kinds.emplace_back("exp_avg", DType::kFloat32);
      kinds.emplace_back("exp_avg_sq", DType::kFloat32);
    }
    kinds.emplace_back("master", DType::kFloat32);
  }
  return kinds;
}

std::vector<std::byte> elements(const Model& model, const std::string& state, DType dtype,
                                const Extent& extent) {
  return Sample::expected(model.common.step, state, dtype, extent);
}

std::map<std::string, Blob> blobs_of(int rank) {
  return {{"rng", Blob(static_cast<std::size_t>(rank), std::byte{1})},
          {"sampler", Blob(3, static_cast<std::byte>(rank))}};
}

void save_as_trainer(Store& store, const Model& model, int world_size) {
  std::set<std::pair<std::string, DType>> kinds, trainable;
  for (std::size_t row = 0; row < model.common.parameters.size(); ++row) {
    if (model.common.parameters[row].alias_of != -1) continue;
    for (const auto& kind : kinds_of(model, row)) {
      kinds.insert(kind);
      if (model.common.parameters[row].trainable) trainable.insert(kind);
    }
  }
  const Ownership ownership(model.common, world_size);
  const auto writer = store.begin(model.common, world_size);
  for (int rank = 0; rank < world_size; ++rank) {
    std::deque<std::vector<std::byte>> memory;
    std::vector<Extent> extents = ownership.trainable(rank);
    for (const Extent& extent : ownership.frozen(rank)) extents.push_back(extent);
    std::sort(extents.begin(), extents.end(),
              [](const Extent& a, const Extent& b) { return a.parameter < b.parameter; });
    RankState state{{}, blobs_of(rank)};
    for (const auto& kind : kinds) {
      StateView view = view_of(model, kind, extents, memory);
      if (trainable.contains(kind) || !view.extents.empty()) {
        state.states.push_back(std::move(view));
      }
    }
    writer->put(rank, state);
  }
  writer->commit();
}

std::string difference(const Reader& reader, const Model& model) {
  const auto& parameters = model.common.parameters;
  if (reader.common().parameters.size() != parameters.size()) return "number of parameters";
  for (std::size_t row = 0; row < parameters.size(); ++row) {
    const ParameterSpec& spec = parameters[row];
    const auto parameter = static_cast<std::int32_t>(row);
    const std::int32_t owner = spec.alias_of == -1 ? parameter : spec.alias_of;
    if (describe(reader.common().parameters[row]) != describe(spec)) return "row of " + spec.name;
    const auto kinds = kinds_of(model, static_cast<std::size_t>(owner));
    if (reader.states(parameter).size() != kinds.size()) return "states of " + spec.name;
    for (const auto& [state, dtype] : kinds) {
      if (reader.dtype(parameter, state) != dtype) return "dtype of " + state + " of " + spec.name;
      const auto want = elements(model, state, dtype, {owner, 0, spec.numel()});
      std::vector<std::byte> got(want.size());
      reader.read(parameter, state, 0, spec.numel(), got);
      if (got != want) return state + " of " + spec.name;
    }
  }
  return {};
}

}  // namespace zero::checkpoint
