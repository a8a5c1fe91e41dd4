#pragma once

/// Carries each micro-gradient from autograd's hooks to the fp32 accumulators, while backward goes
/// on.
///
/// A bucket is reduced when all of its parameters have their gradients and all buckets before it
/// have been queued: the same order on every rank, whatever order autograd finishes in. What
/// happens to a bucket then, on the communication thread, is BucketReduction's.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "libzero/layout/layout.h"
#include "libzero/optim/bucket_reduction.h"
#include "libzero/optim/gradient_hook.h"
#include "libzero/optim/parameter_table.h"
#include "libzero/optim/task_queue.h"

namespace zero {

struct ReducerOptions {
  bool keep_gradients = false;  ///< Stages 0 and 1: zero `.grad` in place instead of letting it go.
  bool defer = false;           ///< Reduce only when backward has ended.
};

/// Everything handed to the constructor must outlive the reducer. Used by the thread that trains.
///
/// `.grad` of the parameters belongs to the reducer while it lives. With keep_gradients it is a
/// tensor of the reducer's, zero between two calls of backward (a module's zero_grad() may take it
/// away: it is put back); otherwise it is undefined between two calls.
class GradientReducer {
 public:
  GradientReducer(const Layout& layout, ParameterTable& table, BucketReduction reduction,
                  TaskQueue& queue, ReducerOptions options);
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  /// Throws ContractError naming the parameter if somebody else has set a `.grad`: it would count
  /// as a gradient.
  void require_own_gradients() const;

  /// Before autograd runs: call `number` (from 0) of the window. Waits until the previous call's
  /// gradients are packed. `label` begins the name of each reduction in error texts.
  void begin_backward(std::int64_t number, std::string label);

  /// After autograd has run, or thrown: contributes zeros for what is missing, so that every rank
  /// makes the same calls. Where all were expected, the first one missing is remembered.
  void end_backward(bool expect_all);

  /// First trainable parameter, in registration order, that received nothing in some backward since
  /// reset(); or -1.
  std::int32_t first_unused() const noexcept { return first_unused_; }

  /// Forgets the window: the next backward starts from zero.
  void reset() noexcept { first_unused_ = -1; }

  /// The same for a window that was broken off: what lies in `.grad` is thrown away before the next
  /// backward.
  void discard() noexcept {
    reset();
    dirty_ = true;
  }

 private:
  void on_gradient(std::int32_t parameter, const at::Tensor& arrived);
  void require_acceptable(std::int32_t parameter, const at::Tensor& arrived) const;
  void take_gradient(std::int32_t parameter);
  void restore_gradients();
  void queue_ready_buckets();

  const Layout& layout_;
  ParameterTable& table_;
  BucketReduction reduction_;
  TaskQueue& queue_;
  const ReducerOptions options_;

  std::vector<at::Tensor> kept_;  // by parameter: the `.grad` of stages 0 and 1
  bool dirty_ = true;             // `.grad` may hold what must not count
  bool in_backward_ = false;
  bool accumulate_ = false;
  std::string label_;
  std::vector<bool> ready_;            // by parameter
  std::vector<at::Tensor> gradients_;  // by parameter, waiting for their bucket's turn
  std::vector<std::int64_t> missing_;  // by bucket: parameters without gradient yet
  std::size_t next_bucket_ = 0;
  std::int32_t first_unused_ = -1;
  std::atomic<int> unpacked_buckets_{0};
  std::vector<std::unique_ptr<GradientHook>> hooks_;
};

}  // namespace zero
