#include <string>
#include <utility>

#include "libzero/collective/agreement.h"
#include "libzero/collective/all_or_none.h"
#include "libzero/optim/device_wait.h"
#include "libzero/optim/gradient_hook.h"
#include "libzero/optim/model_sync.h"
#include "libzero/optim/optimizer_impl.h"
#include "libzero/optim/rebuild_plan.h"
#include "libzero/optim/state_transfer.h"

namespace zero {
namespace {

bool is_resized(const ParameterTable& table, std::size_t row) {
  return table.tensors[row].sizes() != at::IntArrayRef(table.specs[row].shape);
}

/// By row: what a parameter was can no longer be read from its tensor.
std::vector<bool> lost_rows(const ParameterTable& table) {
  std::vector<bool> lost;
  for (std::size_t i = 0; i < table.specs.size(); ++i) {
    const at::Tensor& tensor = table.tensors[i];
    const std::optional<DType> dtype = known_dtype(tensor.scalar_type());
    lost.push_back(is_resized(table, i) || tensor.device() != table.device || !dtype ||
                   !is_floating(*dtype));
  }
  return lost;
}

/// A line for each trained parameter, the same on every rank.
std::vector<std::string> facts_of(const RebuildPlan& plan, const ParameterTable& after) {
  std::vector<std::string> facts;
  for (std::size_t i = 0; i < after.specs.size(); ++i) {
    const ParameterSpec& spec = after.specs[i];
    if (!spec.trainable || spec.alias_of >= 0) continue;
    facts.push_back("parameter " + spec.name +
                    (plan.sources[i] < 0 ? ": starts fresh" : ": keeps its state"));
  }
  return facts;
}

/// Everything whose value is rank 0's: what keeps no master.
std::vector<NamedTensor> values_of_rank_0(const ParameterTable& table,
                                          const std::vector<std::int32_t>& sources,
                                          const std::vector<NamedTensor>& buffers) {
  std::vector<NamedTensor> tensors;
  for (std::size_t i = 0; i < table.specs.size(); ++i) {
    if (table.specs[i].alias_of < 0 && sources[i] < 0)
      tensors.push_back({table.specs[i].name, table.tensors[i]});
  }
  tensors.insert(tensors.end(), buffers.begin(), buffers.end());
  return tensors;
}

}  // namespace

struct Optimizer::Impl::Successor {
  std::unique_ptr<Impl> impl;
  RebuildPlan plan;
  std::vector<std::vector<at::Tensor>> groups;
  std::optional<StateTransfer> transfer;
};

RebuildReport Optimizer::rebuild(const torch::nn::Module& model, const RebuildOptions& options) {
  return rebuild(named_parameters(model), named_buffers(model), options);
}

RebuildReport Optimizer::rebuild(const std::vector<NamedTensor>& parameters,
                                 const std::vector<NamedTensor>& buffers,
                                 const RebuildOptions& options) {
  Impl::Successor next = impl_->make_successor(*this, parameters, buffers, options);
  std::unique_ptr<Impl> before = std::exchange(impl_, std::move(next.impl));
  impl_->succeed(*before, *this, next);
  before.reset();
  impl_->tell_of_birth();
  return std::move(next.plan.report);
}

StateArrays Optimizer::Impl::state_arrays() {
  return {layout_, table_, states_, distant()};
}

Optimizer::Impl::Successor Optimizer::Impl::make_successor(
    const Optimizer& face, const std::vector<NamedTensor>& parameters,
    const std::vector<NamedTensor>& buffers, const RebuildOptions& options) {
  checkpoint_comm();
  const PresentGroups groups = groups_of(face, "rebuild");
  Successor next;
  try {
    checkpointing(kNothingChanged, [&] {
      all_or_none(*checkpoint_comm_, "rebuild: who is ready",
                  [&] { require_ready_to_rebuild(groups); });
      plan_succession(next, groups, parameters, buffers, options);
      fill(next);
    });
  } catch (...) {
    next.impl.reset();
    reducer_->reinstate_hooks();
    throw;
  }
  return next;
}

void Optimizer::Impl::require_ready_to_rebuild(const PresentGroups& groups) const {
  ZERO_REQUIRE(groups.fault.empty(), groups.fault);
  const std::string fault = fault_of(*rule_, groups.options, "rebuild");
  ZERO_REQUIRE(fault.empty(), fault);
  ZERO_REQUIRE(calls_.empty(),
               "rebuild: in the middle of a window; call step() or zero_grad() first: " +
                   std::to_string(calls_.size()) + " backward calls since the last step");
  replicas_.require_equal("rebuild");
  wait_for(model().device, options_.device_timeout(), "what it was given before rebuild()");
  if (!image_) return;
  image_->download_changed();  // float32 parameters are their masters
  image_->begin_update();      // the successor's are some of these images: nothing reads them now
}

void Optimizer::Impl::plan_succession(Successor& next, const PresentGroups& groups,
                                      const std::vector<NamedTensor>& parameters,
                                      const std::vector<NamedTensor>& buffers,
                                      const RebuildOptions& options) {
  Collective& comm = *checkpoint_comm_;
  BuildPlan plan = agree_on_plan(parameters, buffers, defaults_, options_, comm);
  all_or_none(comm, "rebuild: who keeps what", [&] {
    ZERO_REQUIRE(plan.table.device == table_.device,
                 "rebuild: the changed model must stay where it is; save a checkpoint, and load it "
                 "into an optimizer of the model on its new device: " +
                     plan.table.device.str() + " instead of " + table_.device.str());
    next.plan = plan_rebuild(table_.specs, lost_rows(model()), plan.table.specs, options);
  });
  std::vector<std::string> facts = facts_of(next.plan, plan.table);
  for (std::size_t i = 0; i < groups.options.size(); ++i)
    facts.push_back("group " + std::to_string(i) + ": " + describe(*rule_, groups.options[i]));
  require_agreement(comm, facts);
  all_or_none(comm, "rebuild: making room", [&] {
    plan.comm = comm_;
    next.impl = std::make_unique<Impl>(std::move(plan), buffers, options_, *stop_requested_,
                                       Content::kOfAnother, image_.get());
    std::vector<std::int64_t> begun;
    for (const std::int32_t source : next.plan.sources)
      begun.push_back(source < 0 ? steps_applied_ : begun_[static_cast<std::size_t>(source)]);
    next.impl->set_begun(std::move(begun));
    for (std::size_t i = 0; i < groups.options.size(); ++i)
      next.groups.push_back(tensors_of_group(next.impl->model(), static_cast<std::int32_t>(i)));
    next.transfer.emplace(state_arrays(), next.impl->state_arrays(), next.plan.sources,
                          options_.stage() == 0, comm);
  });
}

void Optimizer::Impl::fill(Successor& next) {
  const std::optional<Failure> failure = next.transfer->run();
  all_or_none(*checkpoint_comm_, "rebuild: moving state", [&] {
    if (failure) throw_failure(failure->kind, failure->text);
    if (next.impl->image_) next.impl->image_->download_changed();
    for (std::size_t i = 0; i < model().specs.size(); ++i) {
      if (model().specs[i].trainable && is_resized(model(), i))
        forget_accumulator(model().tensors[i]);
    }
    next.impl->make_reducer();
  });
}

void Optimizer::Impl::succeed(Impl& before, Optimizer& face, Successor& rest) {
  take_over(before);
  for (std::size_t i = 0; i < rest.groups.size(); ++i)
    face.param_groups()[i].params() = std::move(rest.groups[i]);
  bool is_equal = false;
  try {
    tell_observer();  // spans of other buckets come now
    if (home_) home_->register_staging(*comm_);
    synchronize(rest);
    is_equal = are_equal_on_ranks(hash_of_parameters(table_), *checkpoint_comm_);
  } catch (const std::exception& error) {  // of whatever type: some of the model is changed
    if (is_dead()) throw;
    die(kHalfRebuilt, error.what());
  }
  if (!is_equal) die(kHalfRebuilt, "rebuild: the parameters differ between ranks afterwards");
  rest.transfer.reset();  // it refers to the one before
}

void Optimizer::Impl::take_over(Impl& before) noexcept {
  if (scaler_.enabled() == before.scaler_.enabled()) scaler_ = before.scaler_;
  steps_applied_ = before.steps_applied_;
  windows_ended_ = before.windows_ended_;
  checkpoint_comm_ = before.checkpoint_comm_;
  no_sync_depth_ = before.no_sync_depth_;
  holds_average_ = before.holds_average_;
  last_collective_time_ = before.last_collective_time_;
  forward_begin_ = before.forward_begin_;
  shut_down_ = std::exchange(before.shut_down_, true);
}

/// Collective: brings the values in place that ranks do not have yet.
void Optimizer::Impl::synchronize(Successor& rest) {
  const auto local = [&](auto part) {
    if (!offload_) return part();
    settle_offload(kHalfRebuilt, attempt(part));
  };
  local([&] { rest.transfer->put_parameters(); });
  broadcast_from_rank_0(*comm_, values_of_rank_0(table_, rest.plan.sources, buffers_));
  local([&] { rest.transfer->take_fresh_masters(); });
  gather_parameters();
}

}  // namespace zero
