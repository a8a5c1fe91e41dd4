#include "libzero/optim/sgd_rule.h"

#include "libzero/base/number_text.h"
#include "libzero/optim/option_checks.h"

namespace zero {
namespace {

enum : std::size_t { kLr, kMomentum, kWeightDecay, kNesterov };
constexpr std::string_view kNames[] = {"lr", "momentum", "weight_decay", "nesterov"};
constexpr StateKind kMoments[] = {StateKind::kMomentumBuffer};

}  // namespace

SGDRule::SGDRule(std::span<const RuleOptions> groups) {
  for (const RuleOptions& group : groups) {
    const auto* options = std::get_if<SGDOptions>(&group);
    if (options != nullptr && options->momentum() != 0) has_buffer_ = true;
  }
}

std::span<const std::string_view> SGDRule::option_names() const noexcept {
  return kNames;
}

std::span<const StateKind> SGDRule::moments() const noexcept {
  return std::span(kMoments).first(has_buffer_ ? 1 : 0);
}

std::optional<OptionValues> SGDRule::values_of(
    const torch::optim::OptimizerOptions& options) const {
  const auto* own = dynamic_cast<const SGDOptions*>(&options);
  if (own == nullptr) return std::nullopt;
  return OptionValues{own->lr(), own->momentum(), own->weight_decay(), own->nesterov() ? 1.0 : 0.0};
}

void SGDRule::assign(const OptionValues& values, torch::optim::OptimizerOptions& options) const {
  auto& own = static_cast<SGDOptions&>(options);
  own.lr(values[kLr]).momentum(values[kMomentum]);
  own.weight_decay(values[kWeightDecay]).nesterov(values[kNesterov] != 0);
}

std::string SGDRule::fault_of(const OptionValues& values) const {
  for (const std::size_t option : {kLr, kWeightDecay}) {
    if (!is_finite_and_not_negative(values[option]))
      return std::string(kNames[option]) +
             " must be finite and at least 0: " + number_text(values[option]);
  }
  const std::string momentum = number_text(values[kMomentum]);
  if (!is_below_1(values[kMomentum])) return "momentum must lie in [0, 1) as float32: " + momentum;
  if (values[kNesterov] != 0 && values[kNesterov] != 1)
    return "nesterov must be 0 or 1: " + number_text(values[kNesterov]);
  if (values[kNesterov] != 0 && values[kMomentum] == 0)
    return "nesterov needs a momentum above 0: " + momentum;
  if (!has_buffer_ && values[kMomentum] != 0)
    return "momentum must stay 0, as no group had any when the optimizer was built and it keeps no "
           "momentum_buffer; build a new one: " +
           momentum;
  return "";
}

void SGDRule::begin_step(std::span<const OptionValues> classes, std::span<const std::int64_t>) {
  constants_.clear();
  for (const OptionValues& group : classes) {
    constants_.push_back(sgd_constants({.lr = group[kLr],
                                        .momentum = group[kMomentum],
                                        .weight_decay = group[kWeightDecay],
                                        .nesterov = group[kNesterov] != 0}));
  }
}

void SGDRule::step(std::int32_t group, const UpdateRun& run) const {
  SGDRun own;
  own.gradient = run.gradient;
  own.gradient_factor = run.gradient_factor;
  own.master = run.master;
  own.momentum_buffer = run.moments[0];
  own.low_precision = run.low_precision;
  own.low_precision_dtype = run.low_precision_dtype;
  own.n = run.n;
  sgd_step(constants_[static_cast<std::size_t>(group)], own);
}

int SGDRule::launch(std::int32_t group, const UpdateRun& run, const DeviceStep& on) const {
  cuda::SGDStep own;
  own.state = on.state;
  own.constants = static_cast<const SGDConstants*>(on.constants) + group;
  own.gradient = run.gradient;
  own.master = run.master;
  own.momentum_buffer = run.moments[0];
  own.low_precision = run.low_precision;
  own.low_precision_dtype = run.low_precision_dtype;
  own.value_limit = on.value_limit;
  own.count = run.n;
  return on.kernels.sgd(&own, on.stream);
}

}  // namespace zero
