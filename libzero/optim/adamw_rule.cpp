#include "libzero/optim/adamw_rule.h"

#include <tuple>

#include "libzero/base/number_text.h"
#include "libzero/optim/option_checks.h"

namespace zero {
namespace {

enum : std::size_t { kLr, kBeta1, kBeta2, kEps, kWeightDecay };
constexpr std::string_view kNames[] = {"lr", "beta1", "beta2", "eps", "weight_decay"};
constexpr StateKind kMoments[] = {StateKind::kExpAvg, StateKind::kExpAvgSq};

}  // namespace

std::span<const std::string_view> AdamWRule::option_names() const noexcept {
  return kNames;
}

std::span<const StateKind> AdamWRule::moments() const noexcept {
  return kMoments;
}

std::optional<OptionValues> AdamWRule::values_of(
    const torch::optim::OptimizerOptions& options) const {
  const auto* own = dynamic_cast<const AdamWOptions*>(&options);
  if (own == nullptr) return std::nullopt;
  const auto [beta1, beta2] = own->betas();
  return OptionValues{own->lr(), beta1, beta2, own->eps(), own->weight_decay()};
}

void AdamWRule::assign(const OptionValues& values, torch::optim::OptimizerOptions& options) const {
  auto& own = static_cast<AdamWOptions&>(options);
  own.lr(values[kLr]).betas({values[kBeta1], values[kBeta2]});
  own.eps(values[kEps]).weight_decay(values[kWeightDecay]);
}

std::string AdamWRule::fault_of(const OptionValues& values) const {
  for (std::size_t option = 0; option < std::size(kNames); ++option) {
    const bool is_beta = option == kBeta1 || option == kBeta2;
    if (is_beta && !is_below_1(values[option]))
      return "betas must lie in [0, 1) as float32: " + number_text(values[option]);
    if (!is_beta && !is_finite_and_not_negative(values[option]))
      return std::string(kNames[option]) +
             " must be finite and at least 0: " + number_text(values[option]);
  }
  return "";
}

void AdamWRule::begin_step(std::span<const OptionValues> classes,
                           std::span<const std::int64_t> steps) {
  constants_.clear();
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const OptionValues& group = classes[i];
    constants_.push_back(adamw_constants({.lr = group[kLr],
                                          .beta1 = group[kBeta1],
                                          .beta2 = group[kBeta2],
                                          .eps = group[kEps],
                                          .weight_decay = group[kWeightDecay]},
                                         steps[i]));
  }
}

void AdamWRule::step(std::int32_t group, const UpdateRun& run) const {
  AdamWRun own;
  own.gradient = run.gradient;
  own.gradient_factor = run.gradient_factor;
  own.master = run.master;
  own.exp_avg = run.moments[0];
  own.exp_avg_sq = run.moments[1];
  own.low_precision = run.low_precision;
  own.low_precision_dtype = run.low_precision_dtype;
  own.n = run.n;
  adamw_step(constants_[static_cast<std::size_t>(group)], own);
}

int AdamWRule::launch(std::int32_t group, const UpdateRun& run, const DeviceStep& on) const {
  cuda::AdamWStep own;
  own.state = on.state;
  own.constants = static_cast<const AdamWConstants*>(on.constants) + group;
  own.gradient = run.gradient;
  own.master = run.master;
  own.exp_avg = run.moments[0];
  own.exp_avg_sq = run.moments[1];
  own.low_precision = run.low_precision;
  own.low_precision_dtype = run.low_precision_dtype;
  own.value_limit = on.value_limit;
  own.count = run.n;
  return on.kernels.adamw(&own, on.stream);
}

}  // namespace zero
