#include "libzero/optim/gradient_reducer.h"

#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "libzero/base/error.h"
#include "libzero/optim/tensor_runs.h"

namespace zero {
namespace {

// How long backward waits for the other ranks while nothing moves.
constexpr std::chrono::seconds kPatience(1);

void wait_for_zero(std::atomic<int>& count) {
  for (int value = count.load(); value != 0; value = count.load()) count.wait(value);
}

/// One tensor, or handles of one memory: a module's zero_grad(false) detaches.
bool is_same_memory(const at::Tensor& a, const at::Tensor& b) {
  return a.is_same(b) || (b.defined() && a.is_alias_of(b) && a.sizes() == b.sizes());
}

}  // namespace

GradientReducer::GradientReducer(const Layout& layout, ParameterTable& table,
                                 std::unique_ptr<BucketReduction> reduction, TaskQueue& queue,
                                 ReducerOptions options)
    : layout_(layout),
      table_(table),
      reduction_(std::move(reduction)),
      queue_(queue),
      options_(options),
      kept_(table.specs.size()),
      ready_(table.specs.size(), false),
      missing_(layout.buckets().size(), 0),
      bytes_of_(layout.buckets().size(), 0),
      contributions_(table.specs.size()),
      reached_(table.specs.size(), false),
      versions_(table.specs.size(), 0),
      sums_(table.specs.size()),
      landing_(options.land
                   ? std::make_unique<GradientLanding>(layout, table, options.device_timeout)
                   : nullptr) {
  for (std::size_t b = 0; b < bytes_of_.size(); ++b) {
    for (const std::int32_t parameter : layout_.buckets()[b].parameters) {
      const at::Tensor& tensor = table_.tensors[static_cast<std::size_t>(parameter)];
      bytes_of_[b] += static_cast<std::int64_t>(tensor.nbytes());
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
    at::Tensor& gradient = table_.tensors[p].mutable_grad();
    if (!gradient.defined()) continue;
    const bool is_kept = kept_[p].defined() && is_same_memory(gradient, kept_[p]);
    const bool is_held = holding_ && is_same_memory(gradient, contributions_[p].gradient);
    if (is_kept || is_held) gradient.reset();
  }
}

void GradientReducer::reinstate_hooks() const {
  auto hook = hooks_.begin();
  for (const Bucket& bucket : layout_.buckets()) {
    for (const std::int32_t parameter : bucket.parameters)
      (*hook++)->reinstate(table_.tensors[static_cast<std::size_t>(parameter)]);
  }
}

void GradientReducer::require_hooks() const {
  auto hook = hooks_.begin();
  for (const Bucket& bucket : layout_.buckets()) {
    for (const std::int32_t parameter : bucket.parameters) {
      const auto p = static_cast<std::size_t>(parameter);
      if ((*hook++)->is_in_place(table_.tensors[p])) continue;
      reinstate_hooks();
      throw ContractError(
          "backward: a parameter was another dtype or lay on another device for a while "
          "(set_data(), to()), and the gradient of what was calculated since then would be lost; "
          "nothing was changed, calculate the loss again: parameter " +
          table_.specs[p].name);
    }
  }
}

void GradientReducer::require_own_gradients() const {
  require_hooks();
  if (dirty_) return;
  for (const Bucket& bucket : layout_.buckets()) {
    for (const std::int32_t parameter : bucket.parameters) {
      const auto p = static_cast<std::size_t>(parameter);
      const at::Tensor& gradient = table_.tensors[p].grad();
      const bool is_held = holding_ && contributions_[p].gradient.defined();
      const at::Tensor& own = is_held ? contributions_[p].gradient : kept_[p];
      ZERO_REQUIRE(!gradient.defined() || is_same_memory(gradient, own),
                   "backward: somebody has set .grad, which would count as a gradient; gradients "
                   "come through "
                   "Optimizer::backward only, drop this one with mutable_grad().reset() or "
                   "Optimizer::zero_grad(): "
                   "parameter " +
                       table_.specs[p].name);
      ZERO_REQUIRE(!is_held || own._version() == versions_[p],
                   "backward: somebody has written .grad (a module's zero_grad(false)?) while it "
                   "held gradients of calls inside no_sync(); leave it alone until a call outside "
                   "has reduced them, or begin the window again after Optimizer::zero_grad(): "
                   "parameter " +
                       table_.specs[p].name);
    }
  }
}

/// To be called while no task packs.
void GradientReducer::restore_gradients() {
  if (dirty_) holding_ = expected_ = false;
  for (const Bucket& bucket : layout_.buckets())
    for (const std::int32_t parameter : bucket.parameters) restore_gradient(parameter);
  if (!holding_) std::fill(reached_.begin(), reached_.end(), false);
  dirty_ = false;
}

void GradientReducer::restore_gradient(std::int32_t parameter) {
  const auto p = static_cast<std::size_t>(parameter);
  at::Tensor& gradient = table_.tensors[p].mutable_grad();
  if (dirty_ && options_.keep_gradients) zero_elements(kept_[p]);
  if (holding_ && contributions_[p].gradient.defined()) {
    if (!gradient.is_same(contributions_[p].gradient)) gradient = contributions_[p].gradient;
    return;
  }
  if (!gradient.is_same(kept_[p])) gradient = kept_[p];
  if (holding_) return;
  contributions_[p].gradient.reset();
  contributions_[p].sum = nullptr;
  sums_.forget(parameter);
}

void GradientReducer::begin_backward(const CallName& name, bool hold) {
  wait_for_zero(unpacked_buckets_);
  reduction_->before_backward();
  restore_gradients();
  in_backward_ = true;
  hold_ = hold;
  peers_come_ = true;
  name_ = name;
  if (!hold) ++reductions_;
  next_bucket_ = 0;
  std::fill(ready_.begin(), ready_.end(), false);
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
  ready_[p] = reached_[p] = true;
  note_stream(layout_.slot(parameter).bucket);
  if (hold_) return hold_gradient(parameter);
  if (options_.defer) return;
  take_gradient(parameter);
  if (is_first) --missing_[static_cast<std::size_t>(layout_.slot(parameter).bucket)];
  const std::size_t queued = next_bucket_;
  queue_ready_buckets();
  if (next_bucket_ > queued && !options_.keep_gradients) wait_for_room(bytes_of_[next_bucket_ - 1]);
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
  ZERO_REQUIRE(!ready_[p] || options_.defer || hold_,
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

/// Float32 gradients are held where autograd adds them up: in .grad.
void GradientReducer::hold_gradient(std::int32_t parameter) {
  if (is_16_bit(parameter)) return add_to_sum(parameter);
  const auto p = static_cast<std::size_t>(parameter);
  contributions_[p].gradient = table_.tensors[p].grad();
  versions_[p] = static_cast<std::int64_t>(contributions_[p].gradient._version());
}

void GradientReducer::add_to_sum(std::int32_t parameter) {
  const auto p = static_cast<std::size_t>(parameter);
  at::Tensor& gradient = table_.tensors[p].mutable_grad();
  sums_.add(parameter, gradient);
  if (kept_[p].defined()) zero_elements(kept_[p]);
  if (!gradient.is_same(kept_[p])) gradient = kept_[p];
}

void GradientReducer::take_gradient(std::int32_t parameter) {
  const auto p = static_cast<std::size_t>(parameter);
  Contribution& contribution = contributions_[p];
  if (sums_.of(parameter) != nullptr) {
    if (ready_[p]) add_to_sum(parameter);
    contribution.sum = sums_.of(parameter);
    return;
  }
  at::Tensor& gradient = table_.tensors[p].mutable_grad();
  if (!options_.keep_gradients) {
    contribution.gradient = std::exchange(gradient, at::Tensor());
    return;
  }
  contribution.gradient = gradient;
  if (!gradient.is_same(kept_[p])) dirty_ = true;  // a hook has replaced it
}

void GradientReducer::end_backward(bool expect_all) {
  in_backward_ = false;
  expected_ = expected_ || expect_all;
  if (hold_) {
    holding_ = true;
    return;
  }
  note_streams();
  settle_missing(expected_);
  queue_ready_buckets();
  holding_ = expected_ = false;
}

/// After backward LibTorch lets the present stream wait for all that gradients were written on.
void GradientReducer::note_streams() {
  if (table_.device.is_cpu()) return;
  for (std::size_t b = next_bucket_; b < missing_.size(); ++b)
    note_stream(static_cast<std::int32_t>(b));
}

void GradientReducer::note_stream(std::int32_t bucket) {
  if (table_.device.is_cpu()) return;  // there are none
  if (landing_) {
    landing_->note_stream(bucket);
  } else {
    reduction_->note_stream(bucket);
  }
}

void GradientReducer::settle_missing(bool expect_all) {
  for (std::size_t b = 0; b < missing_.size(); ++b) {
    for (const std::int32_t parameter : layout_.buckets()[b].parameters) {
      const auto p = static_cast<std::size_t>(parameter);
      if (!reached_[p]) {
        if (expect_all && (first_unused_ < 0 || parameter < first_unused_))
          first_unused_ = parameter;
      } else if (options_.defer || !ready_[p]) {
        take_gradient(parameter);
      }
    }
    missing_[b] = 0;
  }
}

void GradientReducer::queue_ready_buckets() {
  while (next_bucket_ < missing_.size() && missing_[next_bucket_] == 0) {
    const auto bucket = static_cast<std::int32_t>(next_bucket_);
    unpacked_buckets_.fetch_add(1);
    {
      const std::lock_guard lock(room_mutex_);
      unpacked_bytes_ += bytes_of_[next_bucket_];
    }
    ++next_bucket_;
    if (landing_) landing_->begin(bucket, contributions_, options_.keep_gradients);
    queue_.submit(
        {[](void* self, std::int32_t b) { static_cast<GradientReducer*>(self)->reduce_bucket(b); },
         this, bucket,
         [](void* self, std::int32_t b) { static_cast<GradientReducer*>(self)->count_packed(b); }});
  }
}

/// Holds backward up while more gradients wait than may. Not for ever: a rank that does something
/// else first must hear of it from the call that it makes, and not wait here for the others.
void GradientReducer::wait_for_room(std::int64_t newest) {
  const std::int64_t most = std::max(options_.most_waiting, newest);
  std::unique_lock lock(room_mutex_);
  if (!peers_come_ || unpacked_bytes_ <= most) return;
  const ObservedScope scope(options_.observer, Activity::kRoomWait, Lane::kTraining);
  while (peers_come_ && unpacked_bytes_ > most) {
    const std::int64_t seen = pieces_packed_;
    peers_come_ = room_.wait_for(lock, kPatience,
                                 [&] { return pieces_packed_ != seen || unpacked_bytes_ <= most; });
  }
}

void GradientReducer::count_piece() {
  {
    const std::lock_guard lock(room_mutex_);
    ++pieces_packed_;
  }
  room_.notify_all();
}

/// On the communication thread.
void GradientReducer::reduce_bucket(std::int32_t bucket) {
  // The next call of backward may begin once the last piece is packed.
  const CallName name = name_;
  const bool accumulate = reductions_ > 1;
  const bool zero_after = options_.keep_gradients && !landing_;
  bool is_counted = false;
  const auto release = [&] {
    for (const std::int32_t p : layout_.buckets()[static_cast<std::size_t>(bucket)].parameters)
      contributions_[static_cast<std::size_t>(p)].gradient.reset();
    count_packed(bucket);
    is_counted = true;
  };
  try {
    const std::vector<BucketPiece>& pieces = reduction_->pieces(bucket);
    if (landing_) landing_->await(bucket);
    reduction_->prepare(bucket, contributions_, zero_after);
    for (const BucketPiece& piece : pieces) {
      reduction_->pack(bucket, piece, contributions_, zero_after);
      count_piece();
      if (&piece == &pieces.back()) release();
      reduction_->reduce(bucket, piece, accumulate, name);
    }
    if (pieces.empty()) release();
  } catch (...) {
    if (!is_counted) release();
    throw;
  }
}

void GradientReducer::count_packed(std::int32_t bucket) noexcept {
  if (landing_) landing_->release(bucket);
  {
    const std::lock_guard lock(room_mutex_);
    unpacked_bytes_ -= bytes_of_[static_cast<std::size_t>(bucket)];
  }
  room_.notify_all();
  unpacked_buckets_.fetch_sub(1);
  unpacked_buckets_.notify_all();
}

}  // namespace zero
