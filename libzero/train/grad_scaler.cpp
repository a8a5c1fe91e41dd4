#include "libzero/train/grad_scaler.h"

#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <string>

#include "libzero/base/error.h"
#include "libzero/base/number_text.h"
#include "libzero/optim/optimizer.h"
#include "libzero/train/gradient_values.h"

namespace zero {
namespace {

/// Gradients of one device and dtype, which one kernel takes at once.
struct Batch {
  c10::Device device;
  c10::ScalarType dtype;
  std::vector<at::Tensor> gradients;
};

void add(std::vector<Batch>& batches, const at::Tensor& gradient) {
  const auto found = std::find_if(batches.begin(), batches.end(), [&](const Batch& batch) {
    return batch.device == gradient.device() && batch.dtype == gradient.scalar_type();
  });
  if (found != batches.end()) {
    found->gradients.push_back(gradient);
  } else {
    batches.push_back({gradient.device(), gradient.scalar_type(), {gradient}});
  }
}

void require_no_half(const at::Tensor& gradient, std::size_t group, std::size_t position) {
  ZERO_REQUIRE(gradient.scalar_type() != at::kHalf,
               "GradScaler: float16 gradients cannot hold what unscaling makes of them; keep "
               "weights in float32 and compute under Autocast, or use zero::Optimizer: parameter " +
                   std::to_string(position) + " of group " + std::to_string(group));
}

std::vector<Batch> batches_of(torch::optim::Optimizer& optimizer) {
  std::vector<Batch> batches;
  auto& groups = optimizer.param_groups();
  for (std::size_t group = 0; group < groups.size(); ++group) {
    auto& parameters = groups[group].params();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (!parameters[i].grad().defined()) continue;
      require_no_half(parameters[i].grad(), group, i);
      add(batches, gradient_values(parameters[i]));
    }
  }
  return batches;
}

}  // namespace

GradScaler::GradScaler(const LossScalerOptions& options) : rule_(options) {}

GradScaler GradScaler::disabled() {
  return GradScaler(LossScaler::disabled());
}

at::Tensor GradScaler::scale(const at::Tensor& loss) const {
  if (!enabled()) return loss;
  // A tensor, unlike a number, takes part in the choice of the result's dtype.
  return loss.mul(
      at::full({}, rule_.scale(), loss.options().dtype(at::kFloat).requires_grad(false)));
}

GradScaler::Seen* GradScaler::find(const torch::optim::Optimizer& optimizer) {
  const auto found = std::find_if(seen_.begin(), seen_.end(),
                                  [&](const Seen& seen) { return seen.optimizer == &optimizer; });
  return found == seen_.end() ? nullptr : &*found;
}

void GradScaler::unscale(torch::optim::Optimizer& optimizer) {
  ZERO_REQUIRE(dynamic_cast<Optimizer*>(&optimizer) == nullptr,
               "GradScaler: a zero::Optimizer scales its losses itself; call its backward() and "
               "step(), and set Options().loss_scaler()");
  if (!enabled()) return;
  const Seen* const seen = find(optimizer);
  ZERO_REQUIRE(seen == nullptr || !seen->has_stepped,
               "GradScaler: unscale() comes after step() of the same optimizer; call update() "
               "before the next iteration's unscale()");
  ZERO_REQUIRE(seen == nullptr,
               "GradScaler: unscale() was called for this optimizer already since the last "
               "update(); a second one would divide its gradients again");
  const std::vector<Batch> batches = batches_of(optimizer);
  ZERO_REQUIRE(!batches.empty(),
               "GradScaler: no parameter of this optimizer has a gradient; call "
               "scale(loss).backward() first");
  bool overflow = false;
  const auto inverse = static_cast<float>(1.0 / rule_.scale());
  for (const Batch& batch : batches) {
    const auto options = at::TensorOptions(batch.device).dtype(at::kFloat);
    at::Tensor found = at::zeros({1}, options);
    at::_amp_foreach_non_finite_check_and_unscale_(batch.gradients, found,
                                                   at::full({1}, inverse, options));
    overflow = overflow || found.item<float>() != 0;
  }
  seen_.push_back({&optimizer, overflow, false});
}

bool GradScaler::step(torch::optim::Optimizer& optimizer) {
  if (!enabled()) {
    unscale(optimizer);  // refuses a zero::Optimizer
    optimizer.step();
    return true;
  }
  const Seen* const before = find(optimizer);
  ZERO_REQUIRE(before == nullptr || !before->has_stepped,
               "GradScaler: step() was called for this optimizer already since the last update(); "
               "call update() once after the steps of all optimizers");
  if (before == nullptr) unscale(optimizer);
  Seen& seen = *find(optimizer);
  if (!seen.found_overflow) optimizer.step();
  seen.has_stepped = true;
  return !seen.found_overflow;
}

void GradScaler::update() {
  if (!enabled()) return;
  ZERO_REQUIRE(!seen_.empty(),
               "GradScaler: update() comes after unscale() or step() of at least one optimizer");
  const bool overflow =
      std::any_of(seen_.begin(), seen_.end(), [](const Seen& seen) { return seen.found_overflow; });
  seen_.clear();
  rule_.update(overflow);
  if (rule_.exhausted()) {
    throw Error(
        "GradScaler: too many iterations in a row overflowed (max_consecutive_skips): the loss or "
        "the weights are not finite; go back to a checkpoint with a lower learning rate: scale " +
        number_text(rule_.scale()) + " after " + std::to_string(rule_.state().consecutive_skips) +
        " skips");
  }
}

void GradScaler::require_between_iterations(const char* what) const {
  ZERO_REQUIRE(seen_.empty(), std::string("GradScaler: ") + what +
                                  " in the middle of an iteration would lose what was found in its "
                                  "gradients; call update() first");
}

LossScalerState GradScaler::state() const {
  require_between_iterations("state()");
  return rule_.state();
}

void GradScaler::set_state(const LossScalerState& state) {
  require_between_iterations("set_state()");
  rule_.set_state(state);
}

}  // namespace zero
