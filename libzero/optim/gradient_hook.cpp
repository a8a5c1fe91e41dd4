#include "libzero/optim/gradient_hook.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <utility>

namespace zero {
namespace {

class PostHook : public torch::autograd::FunctionPostHook {
 public:
  explicit PostHook(std::function<void(const at::Tensor&)> on_gradient)
      : on_gradient_(std::move(on_gradient)) {}

  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list& inputs) override {
    on_gradient_(inputs.empty() ? at::Tensor() : inputs.front());
    return outputs;
  }

 private:
  std::function<void(const at::Tensor&)> on_gradient_;
};

}  // namespace

GradientHook::GradientHook(const at::Tensor& parameter,
                           std::function<void(const at::Tensor&)> on_gradient)
    : node_(torch::autograd::impl::grad_accumulator(parameter)),
      key_(node_->add_post_hook(std::make_unique<PostHook>(std::move(on_gradient)))) {}

GradientHook::~GradientHook() {
  node_->del_post_hook(key_);
}

bool GradientHook::is_in_place(const at::Tensor& parameter) const {
  return torch::autograd::impl::try_get_grad_accumulator(parameter) == node_;
}

void GradientHook::reinstate(const at::Tensor& parameter) const {
  torch::autograd::impl::set_grad_accumulator(parameter, node_);
}

void forget_accumulator(const at::Tensor& parameter) {
  torch::autograd::impl::set_grad_accumulator(parameter, {});
}

}  // namespace zero
