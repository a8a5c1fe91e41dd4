#pragma once

/// Carries each micro-gradient from autograd's hooks to the fp32 accumulators, while backward goes
/// on.
///
/// A bucket is reduced when all of its parameters have their gradients and all buckets before it
/// have been queued: the same order on every rank, whatever order autograd finishes in. What
/// happens to a bucket then, on the communication thread, is BucketReduction's.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "libzero/layout/layout.h"
#include "libzero/optim/bucket_reduction.h"
#include "libzero/optim/gradient_hook.h"
#include "libzero/optim/gradient_landing.h"
#include "libzero/optim/local_sums.h"
#include "libzero/optim/observer.h"
#include "libzero/optim/parameter_table.h"
#include "libzero/optim/task_queue.h"

namespace zero {

struct ReducerOptions {
  bool keep_gradients = false;  ///< Stages 0 and 1: zero `.grad` in place instead of letting it go.
  bool defer = false;           ///< Reduce only when backward has ended.
  /// Gradients come down to the host before they are packed.
  bool land = false;
  /// Bytes of gradients that may wait for the communication thread before backward waits for it,
  /// where they are let go afterwards. One bucket may always wait; where nothing has been packed
  /// for a second (another rank does not come), so may all.
  std::int64_t most_waiting = std::int64_t{50} << 20;
  Observer* observer = nullptr;                                        ///< May be null.
  std::chrono::milliseconds device_timeout = std::chrono::minutes(5);  ///< As Options'.
};

/// Everything handed to the constructor must outlive the reducer. Used by the thread that trains.
/// `table` is the model's own: where its tensors lie on an accelerator, hooks run on a thread of
/// autograd's.
///
/// `.grad` of the parameters belongs to the reducer while it lives. With keep_gradients it is a
/// tensor of the reducer's, zero between two calls of backward (a module's zero_grad() may take it
/// away: it is put back); otherwise it is undefined between two calls.
class GradientReducer {
 public:
  GradientReducer(const Layout& layout, ParameterTable& table,
                  std::unique_ptr<BucketReduction> reduction, TaskQueue& queue,
                  ReducerOptions options);
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  /// Throws ContractError naming the parameter if somebody else has set a `.grad`, which would
  /// count as a gradient, or if LibTorch has let go of a hook, which is put back.
  void require_own_gradients() const;

  /// Before autograd runs. Waits until the previous call's gradients are packed. With `hold` the
  /// gradients of this call stay on this rank, until those of the next call without it arrive: they
  /// are reduced as one sum.
  void begin_backward(const CallName& name, bool hold);

  /// After autograd has run, or thrown: contributes zeros for what is missing, so that every rank
  /// makes the same calls. Where all were expected, the first one that neither this call nor those
  /// held before it brought is remembered.
  void end_backward(bool expect_all);

  /// True while gradients of calls with `hold` wait for a call without.
  bool holds() const noexcept { return holding_; }

  /// The parameters' hooks are this reducer's again, after another one's.
  void reinstate_hooks() const;

  const BucketReduction& reduction() const noexcept { return *reduction_; }
  /// See BucketReduction::let_go().
  void let_go() noexcept { reduction_->let_go(); }

  /// Of sums that calls with `hold` needed.
  std::int64_t local_bytes() const { return sums_.bytes(); }

  /// Of gradients on their way from an accelerator.
  std::int64_t landing_bytes() const { return landing_ ? landing_->bytes() : 0; }

  /// First trainable parameter, in registration order, that received nothing in some backward since
  /// reset(); or -1.
  std::int32_t first_unused() const noexcept { return first_unused_; }

  /// Forgets the window: the next backward starts from zero.
  void reset() noexcept {
    first_unused_ = -1;
    reductions_ = 0;
  }

  /// The same for a window that was broken off: what lies in `.grad` is thrown away before the next
  /// backward.
  void discard() noexcept {
    reset();
    dirty_ = true;
  }

 private:
  void on_gradient(std::int32_t parameter, const at::Tensor& arrived);
  void require_acceptable(std::int32_t parameter, const at::Tensor& arrived) const;
  void hold_gradient(std::int32_t parameter);
  void take_gradient(std::int32_t parameter);
  void add_to_sum(std::int32_t parameter);
  void settle_missing(bool expect_all);
  void restore_gradients();
  void restore_gradient(std::int32_t parameter);
  void queue_ready_buckets();
  void wait_for_room(std::int64_t newest);
  void count_piece();
  void reduce_bucket(std::int32_t bucket);
  void count_packed(std::int32_t bucket) noexcept;
  void note_stream(std::int32_t bucket);
  void note_streams();
  void require_hooks() const;
  bool is_16_bit(std::int32_t parameter) const {
    return table_.specs[static_cast<std::size_t>(parameter)].dtype != DType::kFloat32;
  }

  const Layout& layout_;
  ParameterTable& table_;
  const std::unique_ptr<BucketReduction> reduction_;
  TaskQueue& queue_;
  const ReducerOptions options_;

  std::vector<at::Tensor> kept_;  // by parameter: the `.grad` of stages 0 and 1
  bool dirty_ = false;            // `.grad` may hold what must not count
  bool in_backward_ = false;
  bool hold_ = false;
  CallName name_;
  std::int64_t reductions_ = 0;         // of the window, this call's included
  std::vector<bool> ready_;             // by parameter: this call has brought its gradient
  std::vector<std::int64_t> missing_;   // by bucket: parameters without gradient yet
  std::vector<std::int64_t> bytes_of_;  // by bucket: its gradients'
  std::size_t next_bucket_ = 0;
  std::int32_t first_unused_ = -1;

  // By parameter: what waits for its bucket's turn, or is held. Once a bucket is queued its
  // parameters' belong to the communication thread, until it is packed.
  std::vector<Contribution> contributions_;
  std::atomic<int> unpacked_buckets_{0};

  std::mutex room_mutex_;
  std::condition_variable room_;     // a piece was packed
  std::int64_t unpacked_bytes_ = 0;  // under room_mutex_
  std::int64_t pieces_packed_ = 0;   // under room_mutex_
  bool peers_come_ = true;           // in this call

  bool holding_ = false;                // calls were held since the last one that was not
  bool expected_ = false;               // one of them should have reached every parameter
  std::vector<bool> reached_;           // by parameter: one of them did
  std::vector<std::int64_t> versions_;  // by parameter: of its .grad when it was held
  LocalSums sums_;
  std::unique_ptr<GradientLanding> landing_;  // null: they are packed where they are
  std::vector<std::unique_ptr<GradientHook>> hooks_;
};

}  // namespace zero
