#pragma once

/// A training's past and future: where it starts from, what is kept of it, and leaving in good
/// order when the machine is wanted back.

#include <cstdint>
#include <optional>
#include <string>

#include "examples/minigpt/flags.h"
#include "examples/minigpt/report.h"
#include "examples/minigpt/run_state.h"
#include "examples/minigpt/saves.h"
#include "libzero/zero.h"

namespace minigpt {

/// All members but those that say nothing of saving or loading are collective. What goes wrong in
/// them does so on every rank alike, and leaves optimizer and communicator shut down: no rank takes
/// another's leaving for a failure.
class Checkpoints {
 public:
  /// `windows`: training samples of the data. `say` is called on rank 0 alone. Everything must
  /// outlive this.
  Checkpoints(const Flags& flags, zero::Optimizer& optimizer, zero::Collective& comm,
              std::int64_t windows, Say say);

  /// Opens --checkpoint. Weights from --load-parameters, a whole state from --resume, a first save
  /// for --save-initial.
  void begin();

  /// See RunState.
  std::int64_t samples_seen() const noexcept { return run_.samples_seen(); }

  /// Before a step: passes on a signal that this rank has received.
  void request_stop_if_signalled();

  /// After each step: moves the position.
  void count_step() { run_.count_step(); }

  /// After each step: saves as Saves::if_due() does, after the last one for good.
  void save_if_due(bool is_last);

  /// After a step that said stop_requested: saves and says so.
  void leave();

  /// Waits for a save under way.
  void finish();

 private:
  template <class Function>
  void together(Function function);
  void open_and_take_up();
  bool resume();
  void load_parameters();
  std::string who_stopped();

  const Flags& flags_;
  zero::Optimizer& optimizer_;
  zero::Collective& comm_;
  Say say_;
  RunState run_;
  zero::StopSignals signals_;
  std::optional<Saves> saves_;  // with --checkpoint
};

}  // namespace minigpt
