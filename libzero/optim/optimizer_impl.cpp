#include "libzero/optim/optimizer_impl.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "libzero/collective/all_or_none.h"
#include "libzero/optim/device_wait.h"
#include "libzero/optim/model_sync.h"

namespace zero {
namespace {

/// Keeps sums of weights far from the limits of int64, whatever the number of calls and ranks.
constexpr std::int64_t kMaxWeight = std::int64_t{1} << 40;

ReducerOptions reducer_options(const Options& options, bool land) {
  return {.keep_gradients = options.stage() < 2,
          .defer = options.defer_reduction(),
          .land = land,
          .most_waiting = std::min(options.bucket_bytes(), std::int64_t{1} << 60) * 2,
          .observer = options.observer().get(),
          .device_timeout = options.device_timeout()};
}

bool wants_group_norms(const Options& options) {
  return options.group_norms() ||
         std::any_of(options.groups().begin(), options.groups().end(),
                     [](const ParameterGroup& group) { return group.clip_norm > 0; });
}

std::vector<StateKind> kept_of(const UpdateRule& rule, const Options& options) {
  std::vector<StateKind> kept(rule.moments().begin(), rule.moments().end());
  if (options.ema() > 0) kept.push_back(StateKind::kEma);
  return kept;
}

}  // namespace

std::vector<DType> Optimizer::Impl::wire_dtypes(const Layout& layout, const Options& options) {
  std::vector<DType> wire;
  for (const Bucket& bucket : layout.buckets()) {
    wire.push_back(options.wire()
                       ? *options.wire() == at::kBFloat16 ? DType::kBFloat16 : DType::kFloat32
                       : bucket.dtype);
  }
  return wire;
}

Optimizer::Impl::Impl(BuildPlan plan, const std::vector<NamedTensor>& buffers,
                      const Options& options, const std::atomic<bool>& stop_requested,
                      Content content, const HostImage* before)
    : options_(options),
      defaults_(plan.defaults),
      rule_(std::move(plan.rule)),
      kept_(kept_of(*rule_, options)),
      table_(std::move(plan.table)),
      buffers_(buffers),
      layout_(std::move(plan.layout)),
      image_(make_image(options_, table_, layout_, *plan.comm, content, before)),
      scaler_(plan.scaler),
      replicas_(options.checksum_every()),
      stop_requested_(&stop_requested),
      comm_(std::move(plan.comm)),
      states_(make_bucket_states(layout_, options.stage(), comm_->rank(), comm_->size(), kept_,
                                 memory_of_states())),
      offload_(make_offload(options_, layout_, states_, *comm_, content)),
      home_(make_home(std::move(plan.kernels),
                      wants_group_norms(options_) ? options_.groups().size() + 1 : 0, content)),
      staging_(home_ ? 0
                     : largest_payload(options_, layout_, states_, wire_dtypes(layout_, options_),
                                       comm_->size())
                           .bytes),
      clock_(options.observer().get()),
      parameter_update_(make_update()),
      state_access_(layout_, table_, states_, *comm_, distant()),
      vote_box_(*comm_),
      losses_(options_.device_timeout()),
      queue_(layout_.buckets().size() + 1) {
  set_begun(std::vector<std::int64_t>(table_.specs.size(), 0));
  if (wants_group_norms(options_)) {
    group_limits_.push_back(0);
    for (const ParameterGroup& group : options_.groups()) group_limits_.push_back(group.clip_norm);
    group_squares_.resize(group_limits_.size());
  }
  parameter_update_->clip_values(static_cast<float>(options_.clip_value()));
  if (content == Content::kOfAnother) {
    shut_down_ = true;  // nothing of the communicators is its own until it succeeds
    return;
  }
  refresh_masters();
  broadcast_from_rank_0(*comm_, buffers_);
  make_on_all(*comm_, "optimizer: making room for gradients", [this] { make_reducer(); });
  tell_observer();
  tell_of_birth();
}

void Optimizer::Impl::make_reducer() {
  reducer_.emplace(layout_, model(), make_reduction(), queue_,
                   reducer_options(options_, image_ != nullptr));
}

/// `begun`: of the table's rows, and maybe more.
void Optimizer::Impl::set_begun(std::vector<std::int64_t> begun) {
  begun_ = std::move(begun);
  UpdateClasses classes = make_update_classes(table_.specs, begun_, options_.groups().size() + 1);
  table_.classes = std::move(classes.of_row);
  classes_ = std::move(classes.all);
}

void Optimizer::Impl::tell_of_birth() const {
  say(LogLevel::kInfo,
      "optimizer: stage " + std::to_string(options_.stage()) + " on " +
          std::to_string(comm_->size()) + " ranks (" + std::string(comm_->backend()) + "), " +
          std::to_string(layout_.parameters().size()) + " parameters in " +
          std::to_string(layout_.buckets().size()) + " buckets, " +
          std::to_string(memory().total()) + " bytes on this rank" +
          (model().device.is_cpu() ? ""
                                   : ", " + std::to_string(memory().on_device) + " of them on " +
                                         model().device.str()) +
          (!offload_ ? ""
                     : ", " + std::to_string(offload_->file_bytes()) + " on the disk in " +
                           offload_->name()) +
          (options_.deterministic() ? ", sums in the order of the global batch"
                                    : ", sums in any order (deterministic(false))"));
  if (offload_ && !offload_->is_direct()) {
    say(LogLevel::kWarning,
        "optimizer: the file system of the offload folder has no O_DIRECT, so that the page cache "
        "keeps copies of the state; another folder needs less memory: " +
            offload_->name());
  }
}

void Optimizer::Impl::tell_observer() const {
  if (clock_.observer() == nullptr) return;
  OptimizerFacts facts{
      comm_->rank(), comm_->size(), options_.stage(), std::string(comm_->backend()), {}};
  const std::vector<DType> wire = wire_dtypes(layout_, options_);
  for (std::size_t b = 0; b < wire.size(); ++b) {
    const Bucket& bucket = layout_.buckets()[b];
    facts.buckets.push_back({reducer_->reduction().name(static_cast<std::int32_t>(b)), bucket.dtype,
                             wire[b], bucket.numel});
  }
  clock_.observer()->begin(facts);
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
  let_gathers_end();
  if (!queue_.idle())
    comm_->abort("the optimizer of rank " + std::to_string(comm_->rank()) +
                 " was destroyed while it communicated");
  queue_.stop();  // a task that runs uses the reducer
}

void Optimizer::Impl::require_alive() const {
  require_not_dead();
  ZERO_REQUIRE(!*holds_average_,
               "optimizer: used while the model holds the average of its weights; let the EmaScope "
               "go out of scope first, on every rank");
}

void Optimizer::Impl::require_settled() {
  require_alive();
  guarded(kNothingChanged, [this] { await_gathers(); });
}

void Optimizer::Impl::require_not_dead() const {
  ZERO_REQUIRE(!shut_down_, "optimizer: used after shutdown()");
  if (dead_because_.empty()) return;
  if (dead_of_) throw_failure(*dead_of_, dead_because_);
  throw CommError(dead_because_);
}

void Optimizer::Impl::require_same_shapes() const {
  const std::string change = first_reshaped(model());
  ZERO_REQUIRE(change.empty(), change);
}

void Optimizer::Impl::die(std::string_view consequence, const char* why) {
  comm_->abort(why);  // so that the others hear of it
  if (checkpoint_comm_) checkpoint_comm_->abort(why);
  const std::string text(consequence);
  dead_because_ = "optimizer: refuses to go on after a communication error; " + text + ": " + why;
  throw CommError(std::string(why) + "; " + text);
}

void Optimizer::Impl::begin_forward() noexcept {
  if (clock_.observer() != nullptr) forward_begin_ = steady_now();
}

void Optimizer::Impl::end_forward() {
  Observer* const observer = clock_.observer();
  if (observer == nullptr || forward_begin_ == 0) return;
  observer->observe(
      {Activity::kForward, Lane::kTraining, -1, 0, std::exchange(forward_begin_, 0), steady_now()});
}

void Optimizer::Impl::backward(const at::Tensor& loss, std::int64_t weight) {
  end_forward();
  require_alive();
  replicas_.require_equal("backward");
  ZERO_REQUIRE(loss.defined() && loss.numel() == 1 && loss.is_floating_point(),
               "backward: the loss must be one floating-point number; take its mean or sum");
  ZERO_REQUIRE(loss.requires_grad(),
               "backward: the loss does not depend on a parameter that requires gradients");
  ZERO_REQUIRE(weight >= 0 && weight <= kMaxWeight,
               "backward: the weight must lie between 0 and 2^40: " + std::to_string(weight));
  require_same_shapes();
  const std::string refrozen = first_refrozen(model());
  ZERO_REQUIRE(refrozen.empty(), refrozen);
  guarded(kNothingChanged, [this] { matched([this] { queue_.rethrow_if_failed(); }); });
  reducer_->require_own_gradients();
  read_ahead();

  // The mean over no token is no number: a call without weight must not bring it in.
  const bool hold = *no_sync_depth_ > 0;
  const bool is_known = weight == 0 || loss.is_cpu();
  if (!is_known) losses_.put(calls_.size(), loss);
  calls_.push_back({weight > 0 && is_known ? loss.item<double>() : 0.0, weight,
                    /*reduced=*/!hold});
  run_autograd(loss, weight, hold);
  begin_forward();
  guarded(kNothingChanged, [this] { matched([this] { queue_.rethrow_if_failed(); }); });
}

void Optimizer::Impl::run_autograd(const at::Tensor& loss, std::int64_t weight, bool hold) {
  const double factor = scaler_.scale() * static_cast<double>(weight);
  reducer_->begin_backward({static_cast<std::int64_t>(calls_.size()), windows_ended_ + 1}, hold);
  try {
    const ObservedScope scope(clock_.observer(), Activity::kBackward, Lane::kTraining);
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
}

Optimizer::NoSync Optimizer::Impl::no_sync() {
  ZERO_REQUIRE(!options_.deterministic(),
               "no_sync: adds gradients up on each rank, so that their bits depend on the number "
               "of ranks; construct the optimizer with Options().deterministic(false)");
  return NoSync(no_sync_depth_);
}

void Optimizer::Impl::drop_window() {
  calls_.clear();
  losses_.clear();
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
    await_device();
    if (image_) image_->download();
    broadcast_from_rank_0(*comm_, owners);
    if (image_) image_->upload_all();
  });
  const auto refresh = [this] {
    parameter_update_->refresh_masters();
    parameter_update_->restart_average();
  };
  if (!offload_) return refresh();
  settle_offload("masters may be those of other parameters, start again from saved weights",
                 attempt(refresh));
}

at::Tensor Optimizer::Impl::gather(const std::string& name, StateKind kind) {
  require_alive();
  state_access_.require_state(name, kind);
  require_same_shapes();
  std::optional<double> scale = 1;
  at::Tensor result = guarded(kNothingChanged, [&] {
    queue_.drain();
    await_device();
    if (image_) image_->download_changed();
    if (kind == StateKind::kGradient) scale = present_gradient_scale();
    return state_access_.gather(name, kind);
  });
  ZERO_REQUIRE(scale.has_value(),
               "gather: calls inside no_sync() are not reduced yet; call backward() outside of it "
               "before asking for the gradient: parameter " +
                   name);
  if (kind == StateKind::kGradient) result.div_(*scale);
  return result;
}

/// Empty where a rank holds gradients that are not reduced yet.
std::optional<double> Optimizer::Impl::present_gradient_scale() {
  if (calls_.empty()) return gradient_scale_;
  std::int64_t sums[] = {0, reducer_->holds() ? 1 : 0};  // weights, ranks that hold
  for (const BackwardCall& call : calls_) sums[0] += call.weight;
  comm_->all_reduce({sums, 2, DType::kInt64}, ReduceOp::kSum, "weights so far")->wait();
  if (sums[1] > 0) return std::nullopt;
  return scaler_.scale() * static_cast<double>(sums[0]);
}

void Optimizer::Impl::for_each_shard(StateKind kind,
                                     const std::function<void(const ShardView&)>& visit) {
  require_settled();
  ZERO_REQUIRE(kind != StateKind::kGradient, "for_each_shard: gradients are read with gather()");
  require_same_shapes();
  if (!image_) {
    guarded(kNothingChanged, [this] {
      await_device();
      if (home_) home_->lane.synchronize("state on the GPU that is to be read");
    });
    return state_access_.for_each_shard(kind, visit);
  }
  guarded(kNothingChanged, [this] {
    image_->download_changed();
    image_->begin_update();
  });
  const auto put_up = [&] {
    if (kind == StateKind::kMaster) image_->upload_all();
  };
  try {
    state_access_.for_each_shard(kind, visit);
  } catch (...) {  // what was visited before may have been written
    put_up();
    throw;
  }
  put_up();
}

void Optimizer::Impl::make_on_all(Collective& comm, const std::string& label,
                                  const std::function<void()>& make) {
  try {
    all_or_none(comm, label, make);
  } catch (const CommError&) {
    throw;
  } catch (...) {  // every rank is here
    comm.shutdown();
    throw;
  }
}

std::unique_ptr<HostImage> Optimizer::Impl::make_image(const Options& options,
                                                       ParameterTable& table, const Layout& layout,
                                                       Collective& comm, Content content,
                                                       const HostImage* before) {
  std::unique_ptr<HostImage> image;
  const auto make = [&] {
    if (!table.device.is_cpu() && !lies_on_gpu(table, options))
      image = std::make_unique<HostImage>(table, layout, options.device_timeout(), before);
  };
  if (content == Content::kOfAnother) {
    make();
  } else {  // some ranks may have a GPU, and others none
    make_on_all(comm, "optimizer: making room for parameters", make);
  }
  return image;
}

void Optimizer::Impl::shutdown() {
  if (std::exchange(shut_down_, true)) return;
  if (dead_because_.empty()) {
    guarded(kNothingChanged, [this] { queue_.drain(); });
  } else {
    let_gathers_end();
  }
  offload_.reset();  // gives its room on the disk back; nobody asks for state any more
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
