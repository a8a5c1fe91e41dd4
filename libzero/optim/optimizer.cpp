#include "libzero/optim/optimizer.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <utility>

#include "libzero/base/error.h"
#include "libzero/base/fnv.h"
#include "libzero/optim/block_norm.h"
#include "libzero/optim/build_plan.h"
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

/// Keeps sums of weights far from the limits of int64, whatever the number of calls and ranks.
constexpr std::int64_t kMaxWeight = std::int64_t{1} << 40;

constexpr const char* kParametersMixed = "parameters may stand at two different steps, resume from a checkpoint";
constexpr const char* kNothingChanged = "no parameter was changed since the last step, resume from it or a checkpoint";

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::vector<DType> wire_dtypes(const Layout& layout, const Options& options) {
  std::vector<DType> wire;
  for (const Bucket& bucket : layout.buckets()) {
    wire.push_back(options.wire() ? *options.wire() == at::kBFloat16 ? DType::kBFloat16 : DType::kFloat32 : bucket.dtype);
  }
  return wire;
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

/// Empty, or why these options of the parameter groups cannot be stepped with.
std::string fault_of(const std::vector<AdamWOptions>& groups) {
  try {
    for (std::size_t i = 0; i < groups.size(); ++i) require_valid(groups[i], "step: group " + std::to_string(i));
  } catch (const ContractError& error) {
    return error.what();
  }
  return "";
}

std::string describe_all(const std::vector<AdamWOptions>& groups) {
  std::string text;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    text += (i > 0 ? "; group " : "group ") + std::to_string(i) + ": " + describe(groups[i]);
  }
  return text;
}

std::uint64_t hash_of(const std::string& text) {
  Fnv1a hash;
  hash.add(text);
  return hash.value();
}

std::int64_t bytes_of(const at::Tensor& tensor) { return static_cast<std::int64_t>(tensor.nbytes()); }

}  // namespace

class Optimizer::Impl {
 public:
  Impl(BuildPlan plan, const std::vector<NamedTensor>& buffers, const Options& options);
  ~Impl();

  void backward(const at::Tensor& loss, std::int64_t weight);
  /// `fault`: empty, or why the caller cannot step on this rank.
  StepResult step(const std::vector<AdamWOptions>& groups, std::string fault);
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
  void require_same_shapes() const;
  StepVote make_vote();
  void find_nonfinite(StepVote& vote) const;
  void require_sound_window(const StepTally& tally, const std::string& fault, const std::vector<AdamWOptions>& groups);
  StepTally vote(const std::vector<AdamWOptions>& groups, std::string fault);
  void update(float gradient_factor, const std::vector<AdamWOptions>& groups);
  void update_buckets(float gradient_factor, const std::vector<AdamWOptions>& groups);
  void drop_window();
  void discard_window();
  double present_gradient_scale();
  [[noreturn]] void die(const std::string& consequence, const char* why);
  /// Runs a collective part; a CommError kills the optimizer, with `consequence` in its message and in those of later
  /// calls.
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

Optimizer::Impl::Impl(BuildPlan plan, const std::vector<NamedTensor>& buffers, const Options& options)
    : options_(options),
      table_(std::move(plan.table)),
      buffers_(buffers),
      layout_(std::move(plan.layout)),
      scaler_(std::move(plan.scaler)),
      comm_(std::move(plan.comm)),
      states_(make_bucket_states(layout_, options.stage(), comm_->rank(), comm_->size())),
      staging_(staging_bytes(layout_, wire_dtypes(layout_, options), options.stage(), comm_->size())),
      parameter_update_(layout_, table_, states_, *comm_, staging_, clock_),
      state_access_(layout_, table_, states_, *comm_) {
  refresh_masters();
  broadcast_from_rank_0(*comm_, buffers_);
  reducer_.emplace(layout_, table_, states_, *comm_, queue_, staging_, clock_,
                   ReducerOptions{.keep_gradients = options_.stage() < 2,
                                  .defer = options_.defer_reduction(),
                                  .wire = wire_dtypes(layout_, options_)});
}

Optimizer::Impl::~Impl() {
  if (!queue_.idle()) comm_->abort("the optimizer of rank " + std::to_string(comm_->rank()) +
                                   " was destroyed while it communicated");
  queue_.stop();  // a task that runs uses the reducer
}

void Optimizer::Impl::require_alive() const {
  ZERO_REQUIRE(!shut_down_, "optimizer: used after shutdown()");
  if (!dead_because_.empty()) throw CommError(dead_because_);
}

void Optimizer::Impl::require_same_shapes() const {
  const std::string change = first_reshaped(table_);
  ZERO_REQUIRE(change.empty(), change);
}

void Optimizer::Impl::die(const std::string& consequence, const char* why) {
  comm_->abort(why);  // so that the others hear of it
  dead_because_ = "optimizer: refuses to go on after a communication error; " + consequence + ": " + why;
  throw CommError(dead_because_);
}

template <typename Function>
auto Optimizer::Impl::guarded(const std::string& consequence, Function function) {
  try {
    return function();
  } catch (const CommError& error) {
    die(consequence, error.what());
  } catch (const ContractError&) {
    discard_window();
    throw;
  } catch (...) {  // out of memory in a task, say: what it should have reduced is missing
    backward_failed_ = true;
    throw;
  }
}

void Optimizer::Impl::backward(const at::Tensor& loss, std::int64_t weight) {
  require_alive();
  ZERO_REQUIRE(loss.defined() && loss.numel() == 1 && loss.is_floating_point(),
               "backward: the loss must be one floating-point number; take its mean or sum");
  ZERO_REQUIRE(loss.requires_grad(), "backward: the loss does not depend on a parameter that requires gradients");
  ZERO_REQUIRE(weight >= 0 && weight <= kMaxWeight,
               "backward: the weight must lie between 0 and 2^40: " + std::to_string(weight));
  require_same_shapes();
  const std::string refrozen = first_refrozen(table_);
  ZERO_REQUIRE(refrozen.empty(), refrozen);
  guarded(kNothingChanged, [this] { queue_.rethrow_if_failed(); });
  reducer_->require_own_gradients();

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
      const at::AutoGradMode enable_grad(true);  // the caller may have left the forward's scope
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
  if (backward_failed_) vote.soundness = Soundness::kBackwardThrew;
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

void Optimizer::Impl::require_sound_window(const StepTally& tally, const std::string& fault,
                                           const std::vector<AdamWOptions>& groups) {
  ZERO_REQUIRE(fault.empty(), fault);
  ZERO_REQUIRE(tally.failure != Soundness::kRefused,
               "step: a rank cannot step, and says why; the gradients of this window are dropped: rank " +
                   std::to_string(tally.failed_rank));
  ZERO_REQUIRE(tally.odd_rank < 0,
               "step: the options of the parameter groups differ between ranks; set lr, betas, eps and weight_decay "
               "alike, and step schedules on every rank: rank " + std::to_string(tally.odd_rank) +
                   " differs from rank 0; here " + describe_all(groups));
  ZERO_REQUIRE(!calls_.empty(), "step: there is no gradient; call backward() first (one step() ends a window)");
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

StepTally Optimizer::Impl::vote(const std::vector<AdamWOptions>& groups, std::string fault) {
  if (fault.empty()) fault = first_reshaped(table_);
  if (fault.empty()) fault = first_refrozen(table_);
  if (fault.empty()) fault = fault_of(groups);
  const std::string label = "step " + std::to_string(windows_ended_ + 1) + " after " +
                            std::to_string(calls_.size()) + " backward calls";
  return guarded(kNothingChanged, [&] {
    queue_.drain();
    StepVote mine = make_vote();
    mine.options = hash_of(describe_all(groups));
    if (!fault.empty()) mine.soundness = Soundness::kRefused;
    const StepTally tally = clock_.timed([&] { return gather_votes(*comm_, mine, label); });
    require_sound_window(tally, fault, groups);
    return tally;
  });
}

StepResult Optimizer::Impl::step(const std::vector<AdamWOptions>& groups, std::string fault) {
  const auto start = Clock::now();
  require_alive();
  const StepTally tally = vote(groups, std::move(fault));
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
    update(decision.gradient_factor, groups);
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
  try {
    update_buckets(gradient_factor, groups);
  } catch (const std::exception& error) {  // of whatever type: some parameters are stepped, others are not
    die(kParametersMixed, error.what());
  }
}

void Optimizer::Impl::update_buckets(float gradient_factor, const std::vector<AdamWOptions>& groups) {
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
  for (std::size_t i = 0; i < table_.specs.size(); ++i) {
    if (table_.specs[i].trainable) table_.tensors[i].unsafeGetTensorImpl()->bump_version();
  }
}

void Optimizer::Impl::drop_window() {
  calls_.clear();
  backward_failed_ = false;
  reducer_->reset();
}

void Optimizer::Impl::discard_window() {
  if (!reducer_) return;  // still under construction
  drop_window();
  reducer_->discard();
}

void Optimizer::Impl::zero_grad() {
  require_alive();
  guarded(kNothingChanged, [this] { queue_.drain(); });
  discard_window();
}

void Optimizer::Impl::refresh_masters() {
  require_alive();
  require_same_shapes();
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
  state_access_.require_state(name);
  require_same_shapes();
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
  require_same_shapes();
  state_access_.for_each_shard(kind, visit);
}

MemoryReport Optimizer::Impl::memory() const {
  MemoryReport report;
  for (std::size_t i = 0; i < table_.specs.size(); ++i) {
    const ParameterSpec& spec = table_.specs[i];
    if (spec.alias_of >= 0) continue;
    const at::Tensor& tensor = table_.tensors[i];
    (spec.trainable ? report.parameters : report.frozen) += bytes_of(tensor);
    if (options_.stage() < 2 && spec.trainable) report.gradients += bytes_of(tensor);
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
  ZERO_REQUIRE(comm != nullptr, "optimizer: the communicator is null; pass the result of zero::connect()");
  impl_ = std::make_unique<Impl>(make_build_plan(parameters, buffers, defaults, options, *comm), buffers, options);
  add_param_group(make_group(impl_->table_, 0, defaults));
  for (std::size_t i = 0; i < options.groups().size(); ++i) {
    add_param_group(make_group(impl_->table_, static_cast<std::int32_t>(i + 1), options.groups()[i].options));
  }
}

Optimizer::~Optimizer() = default;

void Optimizer::backward(const at::Tensor& loss, std::int64_t weight) { impl_->backward(loss, weight); }

StepResult Optimizer::step() {
  std::vector<AdamWOptions> groups;
  std::string fault;
  for (const auto& group : param_groups()) {
    const auto* options = dynamic_cast<const AdamWOptions*>(&group.options());
    if (options == nullptr) fault = "step: a parameter group's options are no zero::AdamWOptions any more";
    groups.push_back(options != nullptr ? *options : AdamWOptions());
  }
  const std::size_t built = impl_->options_.groups().size() + 1;
  if (groups.size() != built) {
    fault = "step: parameter groups were added or taken away after the optimizer was built; build a new one: " +
            std::to_string(groups.size()) + " instead of " + std::to_string(built);
  }
  return impl_->step(groups, std::move(fault));
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
