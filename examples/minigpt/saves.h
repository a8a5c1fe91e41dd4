#pragma once

/// When a run saves, and what a disk that refuses costs it.

#include <cstdint>

#include "examples/minigpt/flags.h"
#include "examples/minigpt/report.h"
#include "examples/minigpt/run_state.h"
#include "libzero/zero.h"

namespace minigpt {

/// The folder of --checkpoint. All members but has_loaded() are collective, and what they throw
/// they throw on every rank alike.
class Saves {
 public:
  /// Opens the folder. `say` is called on rank 0 alone. Everything must outlive this.
  Saves(const Flags& flags, zero::Optimizer& optimizer, const RunState& run, const Say& say);

  /// The folder's newest whole checkpoint, if there is one.
  zero::LoadReport resume(const zero::LoadOptions& options) {
    return checkpointer_.resume(options);
  }

  /// The optimizer is what this checkpoint holds: in this folder it need not be saved again.
  void has_loaded(const zero::LoadReport& report);

  /// Saves what is not saved yet. Throws IoError where the disk refuses; with --async-save that may
  /// come out of a later call.
  void now();

  /// Once a step: now() after every --save-every of them. A disk that refuses costs that save
  /// alone, with a warning; the third time in a row IoError comes out.
  void if_due();

  /// The last chance: IoError comes out at once. That of an earlier save, which may be known only
  /// now, does not count.
  void for_good();

  /// Waits for a save under way, and learns how it ended.
  void collect();

 private:
  template <class Function>
  void forgive(Function function);

  const Flags& flags_;
  zero::Optimizer& optimizer_;
  const RunState& run_;
  Say say_;
  zero::Checkpointer checkpointer_;
  std::int64_t saved_step_ = -1;    // the newest that lies in the folder
  std::int64_t pending_step_ = -1;  // not yet known to be saved; -1: none
  int failures_in_a_row_ = 0;
};

}  // namespace minigpt
