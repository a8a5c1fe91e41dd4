#pragma once

/// What a trainer adds to its checkpoints, what it asks for when it resumes, and what it is told.

#include <torch/arg.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace zero {

/// The trainer's own part of a checkpoint. Keys: 1-64 of A-Z a-z 0-9 _ . -, the first no dot;
/// "applied_steps" and what begins with "layout.", "optimizer." or "random." belongs to libzero.
struct TrainerState {
  using Blob = std::vector<std::byte>;
  std::map<std::string, std::int64_t> counters =
      {};                                       ///< Alike on every rank: samples_seen, epoch, ...
  std::map<std::string, Blob> blobs = {};       ///< Alike on every rank: schedule, ...
  std::map<std::string, Blob> rank_blobs = {};  ///< This rank's own: sampler position, ...
  /// Of the training run; as for keys, and alike on every rank. diff does not look at it. Empty: a
  /// Checkpointer gives the run one, Optimizer::save writes "run".
  std::string run_id = {};
};

/// What load() may do beyond restoring a state like the one that it finds. Whatever is used is
/// reported. Everything is off by default.
struct LoadOptions {
  /// Take a checkpoint of another world size, reading only the slices that this rank needs.
  TORCH_ARG(bool, reshard_on_load) = false;
  /// If the newest checkpoint of a root is damaged, take the newest that is not.
  TORCH_ARG(bool, fall_back) = false;
  /// Trainable parameters that the checkpoint lacks keep their present value; their moments and
  /// step counts are 0.
  /// Frozen parameters and buffers likewise.
  TORCH_ARG(bool, allow_missing) = false;
  /// Leave out what the checkpoint has and the model has not, states and options included.
  TORCH_ARG(bool, allow_extra) = false;
  /// Parameters may have moved to other groups; the groups' options are then the present ones.
  TORCH_ARG(bool, allow_regroup) = false;
  /// Parameters, buffers and states may have another floating dtype than the one that they were
  /// saved with.
  TORCH_ARG(bool, allow_dtype_change) = false;
  /// Parameters may be trained now that were frozen (moments and step counts are 0), frozen that
  /// were trained (they take their master's value), and apart that were tied (each takes the values
  /// and moments of all).
  TORCH_ARG(bool, allow_changed_training) = false;
  /// Take masters, parameters and buffers alone, to start another training from them: moments and
  /// steps are 0, the loss scale begins anew, options of groups and the random state stay as they
  /// are. Whatever world, groups and moments the checkpoint has; frozen or trained does not matter.
  TORCH_ARG(bool, weights_only) = false;
  /// Options of parameter groups ("lr", "weight_decay", AdamW's "beta1", "beta2", "eps", SGD's
  /// "momentum", "nesterov") whose present values stay; all others are the checkpoint's.
  TORCH_ARG(std::set<std::string>, keep_options) = {};
  /// LibTorch's random states of each rank: the CPU's, and that of the kind of device that the
  /// model lies on, if the checkpoint has one. false: they stay as they are.
  TORCH_ARG(bool, random_state) = true;
  /// Blobs and counters without which the checkpoint is refused.
  TORCH_ARG(std::set<std::string>, required) = {};
};

enum class Restored {
  kRestored,   ///< As it was saved.
  kResharded,  ///< As it was saved, from another world's shards.
  kConverted,  ///< To another dtype, group or way of training.
  kDefaulted,  ///< Not taken from the checkpoint: it is as the constructor made it.
  kDerived,    ///< Not in the checkpoint: made from what is (the random state of a new rank).
  kKept,       ///< In the checkpoint, but the caller wanted the present value.
  kDropped,    ///< In the checkpoint, and nobody wants it.
};

/// "restored", "resharded", ...; "unknown" for a value outside the enumeration. The text is static.
const char* name_of(Restored how);

/// One line of a report: "master: resharded, 12 parameters from 4 ranks".
struct LoadItem {
  std::string item;  ///< "masters", "exp_avg", "random state", "counter samples_seen", ...
  Restored how = Restored::kRestored;
  std::string detail;  ///< May be empty.
};

/// What Optimizer::load() or Checkpointer::resume() did.
struct LoadReport {
  bool found = false;     ///< False: an empty root, nothing was done.
  std::string directory;  ///< The checkpoint's; empty for a store that has none.
  std::int64_t step = 0;  ///< Steps taken when it was saved, skipped ones included.
  int saved_world_size = 0;
  TrainerState
      trainer;  ///< What save() was given; rank_blobs are this rank's, or empty if it is new.
  std::vector<LoadItem> items;
  std::vector<std::string> warnings;  ///< Damaged checkpoints that were passed over, ...
  /// Steps of those among them that look whole to who only lists the root: reading showed it.
  std::vector<std::int64_t> damaged_steps;
};

/// What was loaded, the warnings, and a table with a line for each item.
std::string to_text(const LoadReport& report);

}  // namespace zero
