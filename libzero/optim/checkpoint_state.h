#pragma once

/// What an optimizer hands to a checkpoint, and how a Checkpointer reaches it. Not for trainers.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/rank_memory.h"
#include "checkpoint/ranks/save.h"
#include "checkpoint/training_state.h"
#include "libzero/layout/layout.h"
#include "libzero/offload/distant_state.h"
#include "libzero/optim/aligned_array.h"
#include "libzero/optim/optimizer.h"
#include "libzero/optim/parameter_table.h"
#include "libzero/optim/resume.h"
#include "libzero/optim/shard_state.h"
#include "libzero/optim/update_rule.h"

namespace zero {

/// One rank's present moment. Move-only; its views point into the optimizer, the model and
/// `copies`, so it holds until the next backward(), step(), load() or change of the model.
struct CheckpointState {
  checkpoint::CommonState common;
  checkpoint::RankPart part;
  std::vector<AlignedArray<std::byte>> copies;  ///< Of what does not lie in one row-major piece.
};

/// Where the parts of a CheckpointState lie.
struct CheckpointSource {
  const ParameterTable& table;  ///< What is saved.
  const ParameterTable& model;  ///< The model's own tensors: the same, unless they lie on a GPU.
  const std::vector<NamedTensor>& buffers;
  const Layout& layout;
  const std::vector<BucketState>& states;
  const UpdateRule& rule;
  const std::vector<OptionValues>& groups;
  int rank = 0;
  int world_size = 1;
  int stage = 0;
  std::int64_t steps_taken = 0;
  std::int64_t steps_applied = 0;
  std::span<const std::int64_t> begun = {};  ///< As in LoadPlan, of the table's rows.
  LossScalerState scaler;
  checkpoint::RankMemory memory;
  DistantState* distant = nullptr;  ///< Null: masters and moments lie in `states`.
  std::string refusal;  ///< Empty, or why there is nothing to save: then no memory is looked at.
};

/// Copies nothing that lies in memory as the file has it. Never throws for what cannot be saved:
/// part.refusal says why.
CheckpointState make_checkpoint_state(const CheckpointSource& source, const TrainerState& trainer);

/// The door into an Optimizer for who saves it from outside: Checkpointer. Called by
/// the thread that trains.
class CheckpointAccess {
 public:
  /// `optimizer` must outlive this.
  explicit CheckpointAccess(Optimizer& optimizer) : optimizer_(optimizer) {}

  /// Not collective. part.refusal is not empty in the middle of a window, where options of groups
  /// or keys of the trainer break the rules, or where the model was changed. Throws ContractError
  /// after shutdown(), CommError if the optimizer is dead.
  CheckpointState state(const TrainerState& trainer) const;

  /// Collective when called for the first time (a split of the optimizer's communicator, through
  /// its queue). Training never uses it: save() and load() do, on this thread. Work on a thread of
  /// its own needs a split() of this one. shutdown() leaves it. Throws as state() does; a CommError
  /// kills the optimizer.
  std::shared_ptr<Collective> comm() const;

  /// Runs collectives over comm() and what was split off it; a CommError kills the optimizer, and
  /// everything else that they throw passes through. Throws as state() does before that.
  void run(const std::function<void()>& collectives) const;

  /// Whether a CommError has killed it.
  bool is_dead() const;

 private:
  Optimizer& optimizer_;
};

}  // namespace zero
