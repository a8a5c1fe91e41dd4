#pragma once

/// Checkpoints of one run, as a training loop wants them.
///
///   zero::Checkpointer checkpoints(optimizer, "runs/a", zero::CheckpointOptions().keep(3).async(true));
///   zero::LoadReport found = checkpoints.resume();          // found.found is false on an empty root
///   for (auto step = optimizer.steps_taken(); step < steps; ++step) {
///     ...
///     if (optimizer.steps_taken() % 100 == 0) checkpoints.save(trainer_state);
///   }
///   checkpoints.finish();

#include <torch/arg.h>

#include <cstdint>
#include <memory>
#include <string>

#include "libzero/base/log.h"
#include "libzero/optim/optimizer.h"
#include "libzero/optim/resume.h"

namespace zero {

/// What a run keeps, and how it saves.
struct CheckpointOptions {
  /// Whole checkpoints of this run to keep, at least 1; 0: all. The one resumed from stays until
  /// there is a newer one.
  TORCH_ARG(std::int64_t, keep) = 3;
  /// Keep for good every checkpoint whose step is a multiple; 0: none.
  TORCH_ARG(std::int64_t, keep_every) = 0;
  /// Write behind the training's back. What stays on the training's thread: a copy of this rank's
  /// shard, and on rank 0, while the others wait, a listing of the root in save(), and another
  /// with the removal of old checkpoints in the call that learns of a save's end.
  TORCH_ARG(bool, async) = false;
  /// false: for file systems without locks; then only one job may use the root.
  TORCH_ARG(bool, lock) = true;
  /// Told of each checkpoint, of warnings, and of removals, on rank 0. Default: nobody.
  /// What it throws comes out of that call on every rank, as Error; what it was told of stands.
  TORCH_ARG(LogSink, log) = nullptr;
};

/// All members are collective: every rank calls them, in the same order, on the thread that uses
/// the optimizer.
class Checkpointer {
 public:
  /// `root` is made by the first save; its parent must exist. From then on, or from here if the
  /// root is there, rank 0 holds the lock ".job.lock" in it, so that no two jobs save into one
  /// root. Throws on every rank: ContractError if ranks were given different roots or options, if
  /// the root is a file, or if another job holds the lock; IoError if the root cannot be written or
  /// has no parent; Unavailable in a build without HDF5. `optimizer` must outlive this.
  Checkpointer(Optimizer& optimizer, const std::string& root,
               const CheckpointOptions& options = {});
  /// Waits for a save under way, if the optimizer is dead at most for a minute; what fails is told
  /// to the log. Never throws.
  ~Checkpointer();

  /// Saves the optimizer's present state under the number steps_taken(). See Optimizer::save for
  /// errors: what ranks refuse comes out of the call itself, nothing was written or removed then;
  /// with async(true) IoError and CommitUnknown come out of the next call here, which does nothing
  /// else then. A CommError from any member kills the optimizer. A damaged checkpoint of the same
  /// step is removed first, also one that resume() passed over; a whole one makes it throw
  /// ContractError. Afterwards checkpoints beyond `keep` are removed: failures there are warnings.
  /// Those that a run left behind by going back before them, and those that resume() passed over,
  /// do not count, and stay.
  ///
  /// The run's id is `trainer.run_id` unless that is empty, otherwise what it was before, in the
  /// checkpoint that was resumed, say; otherwise rank 0 draws 16 hexadecimal digits. ContractError
  /// if ranks name the run differently, or only some of them do.
  void save(const TrainerState& trainer = {});

  /// The newest whole checkpoint of the root, passing over damaged ones with a warning; `found` is
  /// false if there is none. See Optimizer::load. Not with weights_only: that is no resuming.
  LoadReport resume(LoadOptions options = {});

  /// Waits for a save under way and throws its error.
  void finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace zero
