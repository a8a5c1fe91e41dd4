#include "libzero/optim/optimizer.h"

#include <ATen/core/grad_mode.h>

#include <utility>

#include "libzero/optim/build_plan.h"
#include "libzero/optim/checkpoint_state.h"
#include "libzero/optim/checkpoints_on_disk.h"
#include "libzero/optim/optimizer_impl.h"

namespace zero {
namespace {

std::unique_ptr<torch::optim::OptimizerOptions> copy_of(const RuleOptions& options) {
  return base_of(options).clone();
}

/// For LibTorch's schedulers: the trainable tensors of one group beside its options.
torch::optim::OptimizerParamGroup make_group(const ParameterTable& table, std::int32_t group,
                                             const RuleOptions& options) {
  return {tensors_of_group(table, group), copy_of(options)};
}

}  // namespace

Optimizer::Optimizer(const torch::nn::Module& model, const RuleOptions& defaults,
                     const Options& options, const std::shared_ptr<Collective>& comm)
    : Optimizer(named_parameters(model), named_buffers(model), defaults, options, comm) {}

Optimizer::Optimizer(const std::vector<NamedTensor>& parameters,
                     const std::vector<NamedTensor>& buffers, const RuleOptions& defaults,
                     const Options& options, const std::shared_ptr<Collective>& comm)
    : torch::optim::Optimizer(std::vector<torch::optim::OptimizerParamGroup>(), copy_of(defaults)) {
  ZERO_REQUIRE(comm != nullptr,
               "optimizer: the communicator is null; pass the result of zero::connect()");
  impl_ = std::make_unique<Impl>(make_build_plan(parameters, buffers, defaults, options, *comm),
                                 buffers, options, stop_requested_, Impl::Content::kOfRank0);
  add_param_group(make_group(impl_->model(), 0, defaults));
  for (std::size_t i = 0; i < options.groups().size(); ++i) {
    add_param_group(
        make_group(impl_->model(), static_cast<std::int32_t>(i + 1), options.groups()[i].options));
  }
}

Optimizer::~Optimizer() = default;

void Optimizer::backward(const at::Tensor& loss, std::int64_t weight) {
  impl_->backward(loss, weight);
}

Optimizer::NoSync Optimizer::no_sync() {
  return impl_->no_sync();
}

void Optimizer::begin_forward() noexcept {
  impl_->begin_forward();
}

StepResult Optimizer::step() {
  PresentGroups& groups = impl_->groups_;
  present_groups(*this, *impl_->rule_, impl_->options_.groups().size() + 1, "step", groups);
  return impl_->step(groups.options, std::move(groups.fault));
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

EmaScope Optimizer::ema_scope() {
  return impl_->ema_scope();
}
void Optimizer::zero_grad() {
  impl_->zero_grad();
}
void Optimizer::refresh_masters() {
  impl_->refresh_masters();
}
ParametersReport Optimizer::load_parameters(const std::string& file,
                                            const LoadParametersOptions& options) {
  return impl_->load_parameters(file, options);
}
at::Tensor Optimizer::gather(const std::string& name, StateKind kind) {
  return impl_->gather(name, kind);
}
void Optimizer::for_each_shard(StateKind kind, const std::function<void(const ShardView&)>& visit) {
  impl_->for_each_shard(kind, visit);
}
MemoryReport Optimizer::memory() const {
  return impl_->memory();
}
const Layout& Optimizer::layout() const noexcept {
  return impl_->layout_;
}
std::int64_t Optimizer::steps_applied() const noexcept {
  return impl_->steps_applied_;
}
std::int64_t Optimizer::steps_taken() const noexcept {
  return impl_->windows_ended_;
}
double Optimizer::loss_scale() const noexcept {
  return impl_->scaler_.scale();
}
void Optimizer::save(const std::string& root, const TrainerState& trainer) {
  impl_->require_same_root(root);
  save(*open_store(root), trainer);
}
void Optimizer::save(checkpoint::Store& store, const TrainerState& trainer) {
  impl_->save(store, impl_->groups_of(*this, "save"), trainer);
}
LoadReport Optimizer::load(const std::string& from, const LoadOptions& options) {
  return impl_->load(*this, {.from = from}, options);
}
LoadReport Optimizer::load(checkpoint::Store& store, std::int64_t step,
                           const LoadOptions& options) {
  return impl_->load(*this, {.store = &store, .step = step}, options);
}
void Optimizer::save(torch::serialize::OutputArchive&) const {
  throw ContractError(
      "optimizer: torch::save() would write one rank's memory only; call Optimizer::save(root) on "
      "every rank");
}
void Optimizer::load(torch::serialize::InputArchive&) {
  throw ContractError(
      "optimizer: torch::load() knows one rank's memory only; call Optimizer::load(root) on every "
      "rank");
}
CheckpointState CheckpointAccess::state(const TrainerState& trainer) const {
  Optimizer::Impl& impl = *optimizer_.impl_;
  return impl.checkpoint_state(impl.groups_of(optimizer_, "save"), trainer);
}
std::shared_ptr<Collective> CheckpointAccess::comm() const {
  return optimizer_.impl_->checkpoint_comm();
}
void CheckpointAccess::run(const std::function<void()>& collectives) const {
  optimizer_.impl_->run_for_checkpoints(collectives);
}
bool CheckpointAccess::is_dead() const {
  return optimizer_.impl_->is_dead();
}
void Optimizer::request_stop() noexcept {
  stop_requested_.store(true);
}
void Optimizer::shutdown() {
  impl_->shutdown();
}
void Optimizer::abort(std::string_view why) noexcept {
  impl_->abort(why);
}

}  // namespace zero
