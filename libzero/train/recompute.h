#pragma once

/// Activation checkpointing (Chen et al. 2016, arXiv 1604.06174): memory for time.

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "libzero/train/saved_tensor_scope.h"

namespace zero {

struct RecomputeOptions {
  /// Draw the same random numbers again (dropout). Without, a few microseconds less.
  bool preserve_random = true;
  /// Leave the function by an exception, which is none of std::exception's, as soon as the second
  /// run has brought back the last tensor that backward needs. false: run it to its end.
  bool early_stop = true;
};

/// What recompute() consists of: while one lives, autograd keeps of this thread's operations only
/// `inputs`; when backward first needs what lies between, `again` is called with them.
class RecomputeScope {
 public:
  using Again = std::function<void(const std::vector<at::Tensor>& inputs)>;

  /// Throws Unavailable where Python's autograd engine runs in this process. `again` is kept until
  /// backward is through; what it throws comes out of backward.
  RecomputeScope(std::vector<at::Tensor> inputs, Again again, const RecomputeOptions& options);
  ~RecomputeScope();
  RecomputeScope(const RecomputeScope&) = delete;
  RecomputeScope& operator=(const RecomputeScope&) = delete;

 private:
  std::unique_ptr<SavedTensorSink> recording_;  // null where no gradients are asked for
  std::unique_ptr<SavedTensorScope> scope_;
};

/// Returns function(inputs...), keeping nothing for backward but the inputs: what the function's
/// operations would have saved is computed by a second call when backward comes to it.
///
///   x = zero::recompute([&](const at::Tensor& x) { return block->forward(x); }, x);
///
/// Behaves as PyTorch's checkpoint(use_reentrant=False): one graph, so every hook and every
/// parameter's gradient comes once; results may be one tensor, several, or anything; inputs may
/// need no gradient, be undefined, or be none at all; calls may lie within each other (the inner
/// function then runs three times); backward may run twice (retain_graph). Gradients have the bits
/// of the plain call. The second call has gradients on, the random state of the generators of
/// default_generators() (generator_states.h) and the autocast state of the first; afterwards all
/// are as they were. Where gradients are off, it is a plain call.
///
/// The function is copied or moved, and kept until backward is through; so is what it captures. It
/// must do the same both times: same inputs, parameters and choices. Counters and running
/// statistics (BatchNorm) move twice.
///
/// Backward throws ContractError if the second run saves other tensors than the first, and
/// LibTorch's error if an input was changed in place meanwhile. Throws Unavailable where Python's
/// autograd engine runs in this process. Thread-safe as the function is; what threads of its own
/// compute is not covered.
template <class Function, class... Inputs>
auto recompute(const RecomputeOptions& options, Function function, const Inputs&... inputs) {
  static_assert((std::is_same_v<Inputs, at::Tensor> && ...),
                "recompute: inputs are tensors; let the function capture everything else");
  const auto shared = std::make_shared<Function>(std::move(function));
  const RecomputeScope scope(
      {inputs...},
      [shared](const std::vector<at::Tensor>& again) {
        [&]<std::size_t... I>(std::index_sequence<I...>) {
          static_cast<void>((*shared)(again[I]...));
        }
        (std::index_sequence_for<Inputs...>());
      },
      options);
  return (*shared)(inputs...);
}

/// The same with default options.
template <class Function, class... Inputs>
requires(!std::is_same_v<std::remove_cvref_t<Function>, RecomputeOptions>) auto recompute(
    Function function, const Inputs&... inputs) {
  return recompute(RecomputeOptions{}, std::move(function), inputs...);
}

}  // namespace zero
