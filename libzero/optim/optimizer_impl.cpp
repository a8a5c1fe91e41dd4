#include "libzero/optim/optimizer_impl.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "libzero/optim/model_sync.h"

namespace zero {
namespace {

/// Keeps sums of weights far from the limits of int64, whatever the number of calls and ranks.
constexpr std::int64_t kMaxWeight = std::int64_t{1} << 40;

std::vector<DType> wire_dtypes(const Layout& layout, const Options& options) {
  std::vector<DType> wire;
  for (const Bucket& bucket : layout.buckets()) {
    wire.push_back(options.wire()
                       ? *options.wire() == at::kBFloat16 ? DType::kBFloat16 : DType::kFloat32
                       : bucket.dtype);
  }
  return wire;
}

std::int64_t staging_bytes(const Layout& layout, const std::vector<DType>& wire, int stage,
                           int world_size) {
  std::int64_t largest = 0;
  for (std::size_t b = 0; b < wire.size(); ++b) {
    const std::int64_t elements =
        layout.padded_shard_numel(static_cast<std::int32_t>(b), world_size) * world_size;
    const std::int64_t gathered =
        stage == 0 ? size_of(DType::kFloat32) : size_of(layout.buckets()[b].dtype);
    largest = std::max(largest, elements * std::max(size_of(wire[b]), gathered));
  }
  return largest;
}

std::int64_t bytes_of(const at::Tensor& tensor) {
  return static_cast<std::int64_t>(tensor.nbytes());
}

}  // namespace

Optimizer::Impl::Impl(BuildPlan plan, const std::vector<NamedTensor>& buffers,
                      const Options& options)
    : options_(options),
      table_(std::move(plan.table)),
      buffers_(buffers),
      layout_(std::move(plan.layout)),
      scaler_(plan.scaler),
      replicas_(options.checksum_every()),
      comm_(std::move(plan.comm)),
      states_(make_bucket_states(layout_, options.stage(), comm_->rank(), comm_->size())),
      staging_(
          staging_bytes(layout_, wire_dtypes(layout_, options), options.stage(), comm_->size())),
      parameter_update_(layout_, table_, states_, *comm_, staging_, clock_),
      state_access_(layout_, table_, states_, *comm_) {
  refresh_masters();
  broadcast_from_rank_0(*comm_, buffers_);
  reducer_.emplace(
      layout_, table_,
      BucketReduction(layout_, table_, states_, *comm_, staging_, clock_,
                      wire_dtypes(layout_, options_)),
      queue_,
      ReducerOptions{.keep_gradients = options_.stage() < 2, .defer = options_.defer_reduction()});
  say(LogLevel::kInfo, "optimizer: stage " + std::to_string(options_.stage()) + " on " +
                           std::to_string(comm_->size()) + " ranks (" +
                           std::string(comm_->backend()) + "), " +
                           std::to_string(layout_.parameters().size()) + " parameters in " +
                           std::to_string(layout_.buckets().size()) + " buckets, " +
                           std::to_string(memory().total()) + " bytes on this rank");
}

void Optimizer::Impl::say(LogLevel level, const std::string& line) const {
  if (options_.log()) options_.log()(level, line);
}

Optimizer::Impl::~Impl() {
  if (!shut_down_ && dead_because_.empty()) {
    try {
      say(LogLevel::kWarning,
          "optimizer: destroyed without shutdown(); the other ranks take it for a failure of "
          "rank " +
              std::to_string(comm_->rank()));
    } catch (...) {  // a destructor has nobody to tell
    }
  }
  if (!queue_.idle())
    comm_->abort("the optimizer of rank " + std::to_string(comm_->rank()) +
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
  if (checkpoint_comm_) checkpoint_comm_->abort(why);
  dead_because_ =
      "optimizer: refuses to go on after a communication error; " + consequence + ": " + why;
  throw CommError(std::string(why) + "; " + consequence);
}

void Optimizer::Impl::backward(const at::Tensor& loss, std::int64_t weight) {
  require_alive();
  replicas_.require_equal("backward");
  ZERO_REQUIRE(loss.defined() && loss.numel() == 1 && loss.is_floating_point(),
               "backward: the loss must be one floating-point number; take its mean or sum");
  ZERO_REQUIRE(loss.requires_grad(),
               "backward: the loss does not depend on a parameter that requires gradients");
  ZERO_REQUIRE(weight >= 0 && weight <= kMaxWeight,
               "backward: the weight must lie between 0 and 2^40: " + std::to_string(weight));
  require_same_shapes();
  const std::string refrozen = first_refrozen(table_);
  ZERO_REQUIRE(refrozen.empty(), refrozen);
  guarded(kNothingChanged, [this] { matched([this] { queue_.rethrow_if_failed(); }); });
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
  guarded(kNothingChanged, [this] { matched([this] { queue_.rethrow_if_failed(); }); });
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
  guarded(kNothingChanged, [this] { matched([this] { queue_.drain(); }); });
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

void Optimizer::Impl::for_each_shard(StateKind kind,
                                     const std::function<void(const ShardView&)>& visit) {
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
  if (checkpoint_comm_) checkpoint_comm_->shutdown();
  comm_->shutdown();
}

void Optimizer::Impl::abort(std::string_view why) noexcept {
  if (shut_down_ || !dead_because_.empty()) return;
  comm_->abort(why);
  if (checkpoint_comm_) checkpoint_comm_->abort(why);
  try {
    dead_because_ = "optimizer: used after abort(): ";
    dead_because_ += why;
  } catch (...) {  // no memory: the communicators will say the same
  }
}

}  // namespace zero
