#include <string>

#include "checkpoint/ranks/save.h"
#include "libzero/collective/agreement.h"
#include "libzero/optim/checkpoint_state.h"
#include "libzero/optim/optimizer_impl.h"

namespace zero {

PresentGroups Optimizer::Impl::groups_of(const Optimizer& face, const std::string& what) const {
  PresentGroups groups;
  present_groups(face, *rule_, options_.groups().size() + 1, what, groups);
  return groups;
}

CheckpointState Optimizer::Impl::checkpoint_state(const PresentGroups& groups,
                                                  const TrainerState& trainer) {
  require_settled();
  replicas_.require_equal("save");
  std::string refusal = groups.fault;
  if (!calls_.empty()) {
    refusal = "save: in the middle of a window; call step() or zero_grad() first: " +
              std::to_string(calls_.size()) + " backward calls since the last step";
  }
  try {
    await_device();
    if (image_ && refusal.empty() && first_reshaped(model()).empty()) image_->download_changed();
  } catch (const std::exception& error) {  // the other ranks wait for this one
    refusal = error.what();
  }
  const MemoryReport held = memory();
  return make_checkpoint_state({.table = table_,
                                .model = model(),
                                .buffers = buffers_,
                                .layout = layout_,
                                .states = states_,
                                .rule = *rule_,
                                .groups = groups.options,
                                .rank = comm_->rank(),
                                .world_size = comm_->size(),
                                .stage = options_.stage(),
                                .steps_taken = windows_ended_,
                                .steps_applied = steps_applied_,
                                .begun = begun_,
                                .scaler = scaler_.state(),
                                .memory = {held.on_host(), held.on_device},
                                .distant = distant(),
                                .refusal = refusal},
                               trainer);
}

std::shared_ptr<Collective> Optimizer::Impl::checkpoint_comm() {
  require_settled();
  if (checkpoint_comm_) return checkpoint_comm_;
  guarded(kNothingChanged, [this] {
    matched([this] {
      queue_.drain();
      checkpoint_comm_ =
          comm_->split(/*color=*/0, /*key=*/comm_->rank(), options_.checkpoint_timeout());
    });
  });
  return checkpoint_comm_;
}

void Optimizer::Impl::run_for_checkpoints(const std::function<void()>& collectives) {
  require_settled();
  checkpointing(kNothingChanged, collectives);
}

void Optimizer::Impl::require_same_root(const std::string& root) {
  const std::shared_ptr<Collective> comm = checkpoint_comm();
  checkpointing(kNothingChanged, [&] { require_same("save: the root", root, *comm); });
  ZERO_REQUIRE(!root.empty(), "save: the root must have a name");
}

checkpoint::SaveOutcome Optimizer::Impl::save(checkpoint::Store& store, const PresentGroups& groups,
                                              const TrainerState& trainer) {
  const std::shared_ptr<Collective> comm = checkpoint_comm();
  const CheckpointState state = checkpoint_state(groups, trainer);
  return checkpointing(kNothingChanged, [&] {
    return checkpoint::save_on_ranks(store, state.common, state.part, *comm);
  });
}

}  // namespace zero
