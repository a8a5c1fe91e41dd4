#include "libzero/optim/optimizer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <utility>

#include "libzero/base/error.h"
#include "libzero/optim/agreement.h"
#include "libzero/optim/block_norm.h"
#include "libzero/optim/decision.h"
#include "libzero/optim/gradient_reducer.h"
#include "libzero/optim/model_sync.h"
#include "libzero/optim/parameter_table.h"
#include "libzero/optim/parameter_update.h"
#include "libzero/optim/shard_state.h"
#include "libzero/optim/state_access.h"
#include "libzero/optim/step_vote.h"
#include "libzero/optim/task_queue.h"

namespace zero {

namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kNothingChanged = "no parameter was changed since the last step, resume from it or a checkpoint";

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::vector<DType> wire_dtypes(const Layout& layout, const Options& options) {
  std::vector<DType> wire;
  for (const Bucket& bucket : layout.buckets()) {
    wire.push_back(options.wire() ? *options.wire() == at::kBFloat16 ? DType::kBFloat16 : DType::kFloat32 : bucket.dtype);
  }
  return wire;
}

bool has_float16(const Layout& layout) {
  return std::any_of(layout.buckets().begin(), layout.buckets().end(),
                     [](const Bucket& bucket) { return bucket.dtype == DType::kFloat16; });
}

std::int64_t staging_bytes(const Layout& layout, const std::vector<DType>& wire, int stage, int world_size) {
  std::int64_t largest = 0;
  for (std::size_t b = 0; b < wire.size(); ++b) {
    const std::int64_t elements =
        layout.padded_shard_numel(static_cast<std::int32_t>(b), world_size) * world_size;
    const std::int64_t gathered = stage == 0 ? size_of(DType::kFloat32) : size_of(layout.buckets()[b].dtype);
    largest = std::max(largest, elements * std::max(size_of(wire[b]), gathered));
  }
  return largest;
}

std::int64_t bytes_of(const at::Tensor& tensor) { return static_cast<std::int64_t>(tensor.nbytes()); }

}  // namespace

class Optimizer::Impl {
 public:
  Impl(const std::vector<NamedTensor>& parameters, const std::vector<NamedTensor>& buffers,
       const AdamWOptions& defaults, const Options& options, const std::shared_ptr<Collective>& comm);
  ~Impl();

  void backward(const at::Tensor& loss, std::int64_t weight);
  StepResult step(const std::vector<AdamWOptions>& groups);
  void zero_grad();
  void refresh_masters();
  at::Tensor gather(const std::string& name, StateKind kind);
  void for_each_shard(StateKind kind, const std::function<void(const ShardView&)>& visit);
  MemoryReport memory() const;
  void shutdown();

  const Options options_;
  ParameterTable table_;
  const std::vector<NamedTensor> buffers_;
  const Layout layout_;
  LossScaler scaler_;
  std::int64_t steps_applied_ = 0;

 private:
  void require_alive() const;
  StepVote make_vote();
  void find_nonfinite(StepVote& vote) const;
  void require_sound_window(const StepTally& tally);
  void update(float gradient_factor, const std::vector<AdamWOptions>& groups);
  void drop_window();
  void make_gradients();
  double present_gradient_scale();
  /// Runs a collective part; a CommError kills the optimizer, with `consequence` as the reason later calls give.
  template <typename Function>
  auto guarded(const std::string& consequence, Function function);

  std::shared_ptr<Collective> comm_;
  std::vector<BucketState> states_;
  AlignedArray<std::byte> staging_;
  CommClock clock_;
  ParameterUpdate parameter_update_;
  StateAccess state_access_;
  std::vector<BackwardCall> calls_;  // of the present window
  bool backward_failed_ = false;
  double gradient_scale_ = 1;  // loss scale times sum of weights of what the accumulators hold
  std::int64_t windows_ended_ = 0;  // applied or skipped
  std::string dead_because_;
  bool shut_down_ = false;
  TaskQueue queue_;  // its thread uses all of the above: it ends first
  std::optional<GradientReducer> reducer_;
};

Optimizer::Impl::Impl(const std::vector<NamedTensor>& parameters, const std::vector<NamedTensor>& buffers,
                      const AdamWOptions& defaults, const Options& options, const std::shared_ptr<Collective>& comm)
    : options_(options),
      table_(make_parameter_table(parameters, options.groups())),
      buffers_(buffers),
      layout_(table_.specs, {options.bucket_bytes(), options.first_bucket_bytes(), options.shard_alignment()}),
      scaler_(has_float16(layout_) ? LossScaler(options.loss_scaler())
                                   : LossScaler::disabled(options.loss_scaler().max_consecutive_skips)),
      comm_(comm->split(/*color=*/0, /*key=*/comm->rank())),
      states_(make_bucket_states(layout_, options.stage(), comm_->rank(), comm_->size())),
      staging_(staging_bytes(layout_, wire_dtypes(layout_, options), options.stage(), comm_->size())),
      parameter_update_(layout_, table_, states_, *comm_, staging_, clock_),
      state_access_(layout_, table_, states_, *comm_) {
  require_agreement(*comm_, model_facts(layout_, buffers_, defaults, options_));
  ZERO_REQUIRE(!layout_.buckets().empty(), "optimizer: the model has no trainable parameter");
  refresh_masters();
  broadcast_from_rank_0(*comm_, buffers_);
  make_gradients();
  reducer_.emplace(layout_, table_, states_, *comm_, queue_, staging_, clock_,
                   ReducerOptions{.keep_gradients = options_.stage() < 2,
                                  .defer = options_.defer_reduction(),
                                  .wire = wire_dtypes(layout_, options_)});
}

Optimizer::Impl::~Impl() {
  reducer_.reset();
  if (!queue_.idle()) comm_->abort("the optimizer of rank " + std::to_string(comm_->rank()) +
                                   " was destroyed while it communicated");
}

void Optimizer::Impl::make_gradients() {
  for (const Bucket& bucket : layout_.buckets()) {
    for (const std::int32_t parameter : bucket.parameters) {
      at::Tensor& tensor = table_.tensors[static_cast<std::size_t>(parameter)];
      // What an earlier backward left there belongs to no window.
      tensor.mutable_grad() = options_.stage() < 2 ? at::zeros_like(tensor) : at::Tensor();
    }
  }
}

void Optimizer::Impl::require_alive() const {
  ZERO_REQUIRE(!shut_down_, "optimizer: used after shutdown()");
  if (!dead_because_.empty()) throw CommError(dead_because_);
}

template <typename Function>
auto Optimizer::Impl::guarded(const std::string& consequence, Function function) {
  try {
    return function();
  } catch (const CommError& error) {
    dead_because_ = "optimizer: refuses to go on after a communication error; " + consequence + ": " + error.what();
    throw;
  } catch (const ContractError&) {
    drop_window();
    throw;
  }
}

void Optimizer::Impl::backward(const at::Tensor& loss, std::int64_t weight) {
  require_alive();
  ZERO_REQUIRE(loss.defined() && loss.numel() == 1 && loss.is_floating_point(),
               "backward: the loss must be one floating-point number; take its mean or sum");
  ZERO_REQUIRE(loss.requires_grad(), "backward: the loss does not depend on a parameter that requires gradients");
  ZERO_REQUIRE(weight >= 0, "backward: the weight must be at least 0: " + std::to_string(weight));
  guarded(kNothingChanged, [this] { queue_.rethrow_if_failed(); });

  // The mean over no token is no number: a call without weight must not bring it in.
  calls_.push_back({weight > 0 ? loss.item<double>() : 0.0, weight});
  const double factor = scaler_.scale() * static_cast<double>(weight);
  const std::string label = "backward call " + std::to_string(calls_.size()) + " of step " +
                            std::to_string(windows_ended_ + 1);
  reducer_->begin_backward(static_cast<std::int64_t>(calls_.size()) - 1, label);
  try {
    if (factor == 1.0) {
      loss.backward();
    } else if (weight > 0) {
      loss.mul(factor).backward();
    }
  } catch (...) {
    backward_failed_ = true;
    reducer_->end_backward(/*expect_all=*/false);
    throw;
  }
  reducer_->end_backward(/*expect_all=*/weight > 0);
  guarded(kNothingChanged, [this] { queue_.rethrow_if_failed(); });
}

StepVote Optimizer::Impl::make_vote() {
  StepVote vote;
  for (const BucketState& state : states_) {
    for (const double sum : state.block_sums) {
      if (std::isfinite(sum)) {
        vote.sum_of_squares.add(sum);
      } else {
        vote.finite = false;
      }
    }
  }
  if (!vote.finite) find_nonfinite(vote);
  if (options_.unused() == Unused::kError) vote.unused_parameter = reducer_->first_unused();
  vote.failed = backward_failed_;
  vote.calls = calls_;
  return vote;
}

void Optimizer::Impl::find_nonfinite(StepVote& vote) const {
  for (std::size_t b = 0; b < states_.size(); ++b) {
    const BucketState& state = states_[b];
    for (const Segment& segment : layout_.segments(static_cast<std::int32_t>(b), state.owned)) {
      const bool is_earlier = vote.nonfinite_parameter < 0 || segment.parameter < vote.nonfinite_parameter;
      const float* values = state.accumulator.data() + (segment.bucket_begin - state.owned.begin);
      if (is_earlier && first_nonfinite(values, segment.numel) >= 0) vote.nonfinite_parameter = segment.parameter;
    }
  }
}

void Optimizer::Impl::require_sound_window(const StepTally& tally) {
  ZERO_REQUIRE(tally.failed_rank < 0,
               "step: a backward call threw, so that the gradients of this window are incomplete; they are dropped, "
               "begin the window again: on rank " + std::to_string(tally.failed_rank));
  ZERO_REQUIRE(tally.unused_rank < 0,
               "step: a parameter received no gradient; use it in the loss, freeze it, or allow it with "
               "Options().unused(Unused::kZero): parameter " +
                   table_.specs[static_cast<std::size_t>(std::max(tally.unused_parameter, 0))].name + " on rank " +
                   std::to_string(tally.unused_rank));
  ZERO_REQUIRE(tally.weight > 0, "step: the weights of all backward calls add up to 0; give one a positive weight");
}

StepResult Optimizer::Impl::step(const std::vector<AdamWOptions>& groups) {
  const auto start = Clock::now();
  require_alive();
  ZERO_REQUIRE(!calls_.empty(), "step: there is no gradient; call backward() first (one step() ends a window)");
  const std::string label = "step " + std::to_string(windows_ended_ + 1) + " after " +
                            std::to_string(calls_.size()) + " backward calls";
  const StepTally tally = guarded(kNothingChanged, [&] {
    queue_.drain();
    const StepTally result = clock_.timed([&] { return gather_votes(*comm_, make_vote(), label); });
    require_sound_window(result);
    return result;
  });
  const Decision decision = decide({.sum_of_squares = tally.sum_of_squares,
                                    .finite = tally.finite,
                                    .loss_scale = scaler_.scale(),
                                    .weight_sum = tally.weight,
                                    .clip_norm = options_.clip_norm()});
  StepResult result;
  result.loss = tally.loss;
  result.weight = tally.weight;
  result.grad_norm = decision.grad_norm;
  result.clip_factor = decision.clip_factor;
  result.loss_scale = scaler_.scale();
  gradient_scale_ = scaler_.scale() * static_cast<double>(tally.weight);
  if (decision.apply) {
    guarded("parameters may stand at two different steps, resume from a checkpoint",
            [&] { update(decision.gradient_factor, groups); });
    ++steps_applied_;
    result.applied = true;
  } else {
    result.overflow_parameter = table_.specs[static_cast<std::size_t>(std::max(tally.nonfinite_parameter, 0))].name;
    result.reason = "gradient is not finite in " + result.overflow_parameter;
  }
  ++windows_ended_;
  scaler_.update(/*overflow=*/!decision.apply);
  result.step = steps_applied_;
  result.next_loss_scale = scaler_.scale();
  result.consecutive_skips = scaler_.state().consecutive_skips;
  drop_window();
  result.comm_seconds = clock_.take();
  result.seconds = seconds_since(start);
  if (scaler_.exhausted()) {
    throw Error("step: gave up after too many skipped steps in a row (LossScalerOptions::max_consecutive_skips): " +
                std::to_string(result.consecutive_skips) + ", the last because " + result.reason);
  }
  return result;
}

void Optimizer::Impl::update(float gradient_factor, const std::vector<AdamWOptions>& groups) {
  auto constants = std::make_shared<std::vector<AdamWConstants>>();
  for (const AdamWOptions& group : groups) {
    constants->push_back(adamw_constants({.lr = group.lr(),
                                         .beta1 = std::get<0>(group.betas()),
                                         .beta2 = std::get<1>(group.betas()),
                                         .eps = group.eps(),
                                         .weight_decay = group.weight_decay()},
                                        steps_applied_ + 1));
  }
  for (std::size_t b = 0; b < states_.size(); ++b) {
    const auto bucket = static_cast<std::int32_t>(b);
    if (options_.stage() == 0) {
      queue_.submit([this, bucket, gradient_factor, constants] {
        parameter_update_.step_bucket(bucket, parameter_update_.gather_gradient(bucket), /*origin=*/0, gradient_factor,
                                      *constants);
      });
    } else {
      parameter_update_.step_bucket(bucket, states_[b].accumulator.data(), states_[b].owned.begin, gradient_factor,
                                    *constants);
      queue_.submit([this, bucket] { parameter_update_.gather_bucket(bucket); });
    }
  }
  queue_.drain();
  for (at::Tensor& tensor : table_.tensors) tensor.unsafeGetTensorImpl()->bump_version();
}

void Optimizer::Impl::drop_window() {
  calls_.clear();
  backward_failed_ = false;
  reducer_->reset();
}

void Optimizer::Impl::zero_grad() {
  require_alive();
  guarded(kNothingChanged, [this] { queue_.drain(); });
  drop_window();
}

void Optimizer::Impl::refresh_masters() {
  require_alive();
  std::vector<NamedTensor> owners;
  for (std::size_t i = 0; i < table_.specs.size(); ++i) {
    if (table_.specs[i].alias_of < 0) owners.push_back({table_.specs[i].name, table_.tensors[i]});
  }
  guarded(kNothingChanged, [&] {
    queue_.drain();
    broadcast_from_rank_0(*comm_, owners);
  });
  parameter_update_.refresh_masters();
}

at::Tensor Optimizer::Impl::gather(const std::string& name, StateKind kind) {
  require_alive();
  return guarded(kNothingChanged, [&] {
    queue_.drain();
    at::Tensor result = state_access_.gather(name, kind);
    if (kind == StateKind::kGradient) result.div_(present_gradient_scale());
    return result;
  });
}

double Optimizer::Impl::present_gradient_scale() {
  if (calls_.empty()) return gradient_scale_;
  std::int64_t weight = 0;
  for (const BackwardCall& call : calls_) weight += call.weight;
  comm_->all_reduce({&weight, 1, DType::kInt64}, ReduceOp::kSum, "weights so far")->wait();
  return scaler_.scale() * static_cast<double>(weight);
}

void Optimizer::Impl::for_each_shard(StateKind kind, const std::function<void(const ShardView&)>& visit) {
  require_alive();
  ZERO_REQUIRE(kind != StateKind::kGradient, "for_each_shard: gradients are read with gather()");
  state_access_.for_each_shard(kind, visit);
}

MemoryReport Optimizer::Impl::memory() const {
  MemoryReport report;
  for (std::size_t i = 0; i < table_.specs.size(); ++i) {
    const ParameterSpec& spec = table_.specs[i];
    if (spec.alias_of >= 0) continue;
    const at::Tensor& tensor = table_.tensors[i];
    (spec.trainable ? report.parameters : report.frozen) += bytes_of(tensor);
    if (options_.stage() < 2 && tensor.grad().defined()) report.gradients += bytes_of(tensor.grad());
  }
  for (const NamedTensor& buffer : buffers_) report.buffers += bytes_of(buffer.tensor);
  add_to_report(layout_, states_, report);
  report.staging = staging_.bytes();
  return report;
}

void Optimizer::Impl::shutdown() {
  if (std::exchange(shut_down_, true)) return;
  if (dead_because_.empty()) queue_.drain();
  comm_->shutdown();
}

namespace {

std::unique_ptr<torch::optim::OptimizerOptions> copy_of(const AdamWOptions& options) {
  return std::make_unique<AdamWOptions>(options);
}

/// For LibTorch's schedulers: the trainable tensors of one group beside its options.
torch::optim::OptimizerParamGroup make_group(const ParameterTable& table, std::int32_t group, const AdamWOptions& options) {
  std::vector<at::Tensor> tensors;
  for (std::size_t i = 0; i < table.specs.size(); ++i) {
    const ParameterSpec& spec = table.specs[i];
    if (spec.trainable && spec.alias_of < 0 && spec.group == group) tensors.push_back(table.tensors[i]);
  }
  return {std::move(tensors), copy_of(options)};
}

}  // namespace

Optimizer::Optimizer(const torch::nn::Module& model, const AdamWOptions& defaults, const Options& options,
                     const std::shared_ptr<Collective>& comm)
    : Optimizer(named_parameters(model), named_buffers(model), defaults, options, comm) {}

Optimizer::Optimizer(const std::vector<NamedTensor>& parameters, const std::vector<NamedTensor>& buffers,
                     const AdamWOptions& defaults, const Options& options, const std::shared_ptr<Collective>& comm)
    : torch::optim::Optimizer(std::vector<torch::optim::OptimizerParamGroup>(), copy_of(defaults)) {
  require_valid(defaults, options);
  ZERO_REQUIRE(comm != nullptr, "optimizer: the communicator is null; pass the result of zero::connect()");
  impl_ = std::make_unique<Impl>(parameters, buffers, defaults, options, comm);
  add_param_group(make_group(impl_->table_, 0, defaults));
  for (std::size_t i = 0; i < options.groups().size(); ++i) {
    add_param_group(make_group(impl_->table_, static_cast<std::int32_t>(i + 1), options.groups()[i].options));
  }
}

Optimizer::~Optimizer() = default;

void Optimizer::backward(const at::Tensor& loss, std::int64_t weight) { impl_->backward(loss, weight); }

StepResult Optimizer::step() {
  std::vector<AdamWOptions> groups;
  for (const auto& group : param_groups()) {
    const auto* options = dynamic_cast<const AdamWOptions*>(&group.options());
    ZERO_REQUIRE(options != nullptr, "step: a parameter group's options are no zero::AdamWOptions any more");
    groups.push_back(*options);
  }
  return impl_->step(groups);
}

at::Tensor Optimizer::step(LossClosure closure) {
  at::Tensor loss;
  if (closure != nullptr) {
    const at::AutoGradMode enable_grad(true);
    loss = closure();
  }
  step();
  return loss;
}

void Optimizer::zero_grad() { impl_->zero_grad(); }
void Optimizer::refresh_masters() { impl_->refresh_masters(); }
at::Tensor Optimizer::gather(const std::string& name, StateKind kind) { return impl_->gather(name, kind); }
void Optimizer::for_each_shard(StateKind kind, const std::function<void(const ShardView&)>& visit) {
  impl_->for_each_shard(kind, visit);
}
MemoryReport Optimizer::memory() const { return impl_->memory(); }
const Layout& Optimizer::layout() const noexcept { return impl_->layout_; }
std::int64_t Optimizer::steps_applied() const noexcept { return impl_->steps_applied_; }
double Optimizer::loss_scale() const noexcept { return impl_->scaler_.scale(); }
void Optimizer::shutdown() { impl_->shutdown(); }

}  // namespace zero
