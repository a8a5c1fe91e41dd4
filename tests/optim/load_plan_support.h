#pragma once

/// Tables of a checkpoint and of an optimizer, without any tensor.

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "libzero/optim/load_plan.h"

namespace zero::testing {

using checkpoint::Blob;
using checkpoint::CommonState;

/// A checkpoint of tables alone.
class FakeReader : public checkpoint::Reader {
 public:
  const checkpoint::StepInfo& info() const override { return info_; }
  const CommonState& common() const override { return common_; }
  const std::map<std::string, Blob>& rank_blobs(int rank) const override {
    return blobs_.at(static_cast<std::size_t>(rank));
  }
  std::vector<std::string> states(std::int32_t row) const override {
    std::vector<std::string> names;
    for (const auto& [key, dtype] : states_) {
      if (key.first == row) names.push_back(key.second);
    }
    return names;
  }
  DType dtype(std::int32_t row, std::string_view state) const override {
    return states_.at({row, std::string(state)});
  }
  std::vector<Extent> extents(int, std::string_view) const override { return {}; }
  void read(std::int32_t, std::string_view, std::int64_t, std::int64_t,
            std::span<std::byte>) const override {
    ADD_FAILURE() << "a plan asked for elements";
  }

  checkpoint::StepInfo info_;
  CommonState common_;
  std::vector<std::map<std::string, Blob>> blobs_;
  std::map<std::pair<std::int32_t, std::string>, DType> states_;
};

inline checkpoint::GroupOptions some_options(double lr) {
  return {{"lr", lr}, {"beta1", 0.9}, {"beta2", 0.99}, {"eps", 1e-8}, {"weight_decay", 0.1}};
}

inline std::vector<ParameterSpec> some_rows() {
  return {{.name = "embedding", .shape = {4, 3}, .dtype = DType::kBFloat16},
          {.name = "weight", .shape = {3, 3}, .dtype = DType::kBFloat16, .group = 1},
          {.name = "nothing", .shape = {0, 3}, .dtype = DType::kBFloat16},
          {.name = "fixed", .shape = {5}, .dtype = DType::kBFloat16, .trainable = false},
          {.name = "output", .shape = {4, 3}, .dtype = DType::kBFloat16, .alias_of = 0},
          {.name = "mean", .shape = {2}, .dtype = DType::kInt64, .group = -1, .trainable = false}};
}

/// A checkpoint and an optimizer that fit each other.
struct Pair {
  Pair() {
    reader.info_.step = reader.common_.step = 20;
    reader.info_.world_size = 2;
    reader.common_.parameters = live.rows = some_rows();
    reader.common_.groups = {some_options(0.5), some_options(0.25)};
    live.groups = {some_options(1), some_options(2)};
    live.rule = "AdamW";
    live.moments = {"exp_avg", "exp_avg_sq"};
    live.option_names = {"lr", "beta1", "beta2", "eps", "weight_decay"};
    reader.common_.counters = {{"applied_steps", 18}, {"samples_seen", 640}};
    reader.common_.blobs = {{"schedule", Blob(3)}};
    reader.blobs_ = {{{"sampler", Blob(7)}}, {{"sampler", Blob(8)}}};
    reader.common_.scaler = {.scale = 1};
    live.scaler = LossScaler::disabled();
    live.world_size = 2;
    save_states();
  }

  /// The states that a save of the reader's rows would write.
  void save_states() {
    reader.states_.clear();
    for (std::size_t i = 0; i < reader.common_.parameters.size(); ++i) {
      const ParameterSpec& row = reader.common_.parameters[i];
      const auto index = static_cast<std::int32_t>(i);
      if (row.alias_of >= 0 || row.numel() == 0) continue;
      if (!row.trainable) {
        reader.states_[{index, "value"}] = row.dtype;
        continue;
      }
      for (const char* state : {"master", "exp_avg", "exp_avg_sq"})
        reader.states_[{index, state}] = DType::kFloat32;
    }
  }

  ParameterSpec& saved(std::size_t row) { return reader.common_.parameters[row]; }
  LoadPlan plan(const LoadOptions& options = {}) const { return plan_load(reader, live, options); }

  FakeReader reader;
  LiveTables live;
};

}  // namespace zero::testing
