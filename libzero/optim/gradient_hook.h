#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>

namespace torch::autograd {
struct Node;
}

namespace zero {

/// Calls a function each time autograd has written a parameter's gradient, with the part that came in (undefined if none;
/// `.grad` may have been dense before a sparse part was added to it). Unhooks when destroyed.
///
/// Holds the accumulator node: the parameter only refers to it weakly, and a node that is let go takes the hook with it
/// in silence. The function runs on the thread that runs backward, with gradients off; what it throws leaves backward.
class GradientHook {
 public:
  GradientHook(const at::Tensor& parameter, std::function<void(const at::Tensor& incoming)> on_gradient);
  ~GradientHook();
  GradientHook(const GradientHook&) = delete;
  GradientHook& operator=(const GradientHook&) = delete;

 private:
  std::shared_ptr<torch::autograd::Node> node_;
  std::uintptr_t key_;
};

}  // namespace zero
