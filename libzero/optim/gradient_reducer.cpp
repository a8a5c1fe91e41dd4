#include "libzero/optim/gradient_reducer.h"

#include <ATen/ops/zeros_like.h>

#include <utility>

#include "libzero/base/error.h"
#include "libzero/optim/tensor_runs.h"

namespace zero {
namespace {

/// Counts a bucket as unpacked until it is destroyed: with its task done, or dropped after an
/// error.
class UnpackedBucket {
 public:
  explicit UnpackedBucket(std::atomic<int>& count) : count_(&count) { count_->fetch_add(1); }
  UnpackedBucket(const UnpackedBucket&) = delete;
  UnpackedBucket& operator=(const UnpackedBucket&) = delete;
  ~UnpackedBucket() {
    count_->fetch_sub(1);
    count_->notify_all();
  }

 private:
  std::atomic<int>* count_;
};

void wait_for_zero(std::atomic<int>& count) {
  for (int value = count.load(); value != 0; value = count.load()) count.wait(value);
}

/// One tensor, or handles of one memory: a module's zero_grad(false) detaches.
bool is_same_memory(const at::Tensor& a, const at::Tensor& b) {
  return a.is_same(b) || (b.defined() && a.is_alias_of(b) && a.sizes() == b.sizes());
}

}  // namespace

GradientReducer::GradientReducer(const Layout& layout, ParameterTable& table,
                                 BucketReduction reduction, TaskQueue& queue,
                                 ReducerOptions options)
    : layout_(layout),
      table_(table),
      reduction_(std::move(reduction)),
      queue_(queue),
      options_(options),
      kept_(table.specs.size()),
      ready_(table.specs.size(), false),
      gradients_(table.specs.size()),
      missing_(layout.buckets().size(), 0) {
  for (const Bucket& bucket : layout_.buckets()) {
    for (const std::int32_t parameter : bucket.parameters) {
      const at::Tensor& tensor = table_.tensors[static_cast<std::size_t>(parameter)];
      if (options_.keep_gradients)
        kept_[static_cast<std::size_t>(parameter)] = at::zeros_like(tensor);
      hooks_.push_back(std::make_unique<GradientHook>(
          tensor,
          [this, parameter](const at::Tensor& arrived) { on_gradient(parameter, arrived); }));
    }
  }
  restore_gradients();
}

GradientReducer::~GradientReducer() {
  for (std::size_t p = 0; p < kept_.size(); ++p) {
    if (!kept_[p].defined()) continue;
    at::Tensor& gradient = table_.tensors[p].mutable_grad();
    if (gradient.defined() && is_same_memory(gradient, kept_[p])) gradient.reset();
  }
}

void GradientReducer::require_own_gradients() const {
  if (dirty_) return;
  for (const Bucket& bucket : layout_.buckets()) {
    for (const std::int32_t parameter : bucket.parameters) {
      const auto p = static_cast<std::size_t>(parameter);
      const at::Tensor& gradient = table_.tensors[p].grad();
      ZERO_REQUIRE(!gradient.defined() || is_same_memory(gradient, kept_[p]),
                   "backward: somebody has set .grad, which would count as a gradient; gradients "
                   "come through "
                   "Optimizer::backward only, drop this one with mutable_grad().reset() or "
                   "Optimizer::zero_grad(): "
                   "parameter " +
                       table_.specs[p].name);
    }
  }
}

/// To be called while no task packs.
void GradientReducer::restore_gradients() {
  for (const Bucket& bucket : layout_.buckets()) {
    for (const std::int32_t parameter : bucket.parameters) {
      const auto p = static_cast<std::size_t>(parameter);
      at::Tensor& gradient = table_.tensors[p].mutable_grad();
      if (dirty_ && options_.keep_gradients) zero_elements(kept_[p]);
      if (!gradient.is_same(kept_[p])) gradient = kept_[p];
      gradients_[p].reset();
    }
  }
  dirty_ = false;
}

void GradientReducer::begin_backward(std::int64_t number, std::string label) {
  wait_for_zero(unpacked_buckets_);
  restore_gradients();
  in_backward_ = true;
  accumulate_ = number > 0;
  label_ = std::move(label);
  next_bucket_ = 0;
  ready_.assign(ready_.size(), false);
  for (std::size_t b = 0; b < missing_.size(); ++b) {
    missing_[b] = static_cast<std::int64_t>(layout_.buckets()[b].parameters.size());
  }
}

void GradientReducer::on_gradient(std::int32_t parameter, const at::Tensor& arrived) {
  const auto p = static_cast<std::size_t>(parameter);
  if (in_backward_ && !arrived.defined())
    return;  // autograd ran the node with nothing: end_backward settles it
  try {
    require_acceptable(parameter, arrived);
  } catch (...) {
    dirty_ = true;  // autograd has added it to .grad already
    throw;
  }
  const bool is_first = !ready_[p];
  ready_[p] = true;
  if (options_.defer) return;
  take_gradient(parameter);
  if (is_first) --missing_[static_cast<std::size_t>(layout_.slot(parameter).bucket)];
  queue_ready_buckets();
}

void GradientReducer::require_acceptable(std::int32_t parameter, const at::Tensor& arrived) const {
  const auto p = static_cast<std::size_t>(parameter);
  const std::string& name = table_.specs[p].name;
  ZERO_REQUIRE(
      in_backward_,
      "a gradient arrived outside Optimizer::backward; call optimizer.backward(loss) instead of "
      "loss.backward(): parameter " +
          name);
  ZERO_REQUIRE(
      arrived.layout() == at::kStrided,
      "sparse gradients are not supported; build the embedding with sparse(false): parameter " +
          name);
  ZERO_REQUIRE(!ready_[p] || options_.defer,
               "a second gradient arrived in one backward, after the first may have left; "
               "construct the optimizer with "
               "Options().defer_reduction(true): parameter " +
                   name);
  const at::Tensor& gradient = table_.tensors[p].grad();
  ZERO_REQUIRE(
      gradient.defined() && gradient.sizes() == at::IntArrayRef(table_.specs[p].shape),
      "a hook has replaced .grad by a tensor of another shape; leave .grad alone: parameter " +
          name);
}

void GradientReducer::take_gradient(std::int32_t parameter) {
  const auto p = static_cast<std::size_t>(parameter);
  at::Tensor& gradient = table_.tensors[p].mutable_grad();
  if (!options_.keep_gradients) {
    gradients_[p] = std::exchange(gradient, at::Tensor());
    return;
  }
  gradients_[p] = gradient;
  if (!gradient.is_same(kept_[p])) dirty_ = true;  // a hook has replaced it
}

void GradientReducer::end_backward(bool expect_all) {
  for (std::size_t b = 0; b < missing_.size(); ++b) {
    for (const std::int32_t parameter : layout_.buckets()[b].parameters) {
      const auto p = static_cast<std::size_t>(parameter);
      if (!ready_[p]) {
        if (expect_all && (first_unused_ < 0 || parameter < first_unused_))
          first_unused_ = parameter;
      } else if (options_.defer) {
        take_gradient(parameter);
      }
    }
    missing_[b] = 0;
  }
  queue_ready_buckets();
  in_backward_ = false;
}

void GradientReducer::queue_ready_buckets() {
  while (next_bucket_ < missing_.size() && missing_[next_bucket_] == 0) {
    const auto bucket = static_cast<std::int32_t>(next_bucket_++);
    std::vector<at::Tensor> gradients;
    for (const std::int32_t parameter :
         layout_.buckets()[static_cast<std::size_t>(bucket)].parameters) {
      gradients.push_back(std::move(gradients_[static_cast<std::size_t>(parameter)]));
    }
    queue_.submit([this, bucket, gradients = std::move(gradients), accumulate = accumulate_,
                   label = label_ + ", " + reduction_.name(bucket),
                   unpacked = std::make_shared<UnpackedBucket>(unpacked_buckets_)]() mutable {
      reduction_.pack(bucket, gradients, /*zero_after=*/options_.keep_gradients);
      gradients.clear();
      unpacked.reset();
      reduction_.reduce(bucket, accumulate, label);
    });
  }
}

}  // namespace zero
