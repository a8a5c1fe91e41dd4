#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>

namespace torch::autograd {
struct Node;
}

namespace zero {

/// Calls a function each time autograd has written a parameter's gradient. Unhooks when destroyed.
///
/// Holds the accumulator node: the parameter only refers to it weakly, and a node that is let go
/// takes the hook with it in silence. The function runs on the thread that runs backward, with
/// gradients off; what it throws leaves backward. It is given the gradient that arrived, before it
/// was added to `.grad`: undefined where autograd ran the node with nothing.
class GradientHook {
 public:
  GradientHook(const at::Tensor& parameter,
               std::function<void(const at::Tensor& arrived)> on_gradient);
  ~GradientHook();
  GradientHook(const GradientHook&) = delete;
  GradientHook& operator=(const GradientHook&) = delete;

  /// False where LibTorch has given the parameter another node (set_data() to another dtype or
  /// device does, also if it is set back): graphs made since then pass the hook by.
  bool is_in_place(const at::Tensor& parameter) const;

  /// The parameter refers to this hook's node again.
  void reinstate(const at::Tensor& parameter) const;

 private:
  std::shared_ptr<torch::autograd::Node> node_;
  std::uintptr_t key_;
};

/// The next hook on the parameter, and the next graph, get a node that knows its present shape: one
/// that was made before the parameter was resized in place refuses gradients of the new shape.
/// Hooks on the node before are not called any more.
void forget_accumulator(const at::Tensor& parameter);

}  // namespace zero
