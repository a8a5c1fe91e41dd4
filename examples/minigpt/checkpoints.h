#pragma once

/// A training's past and future: where it starts from, what is kept of it, and leaving in good
/// order when the machine is wanted back.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "examples/minigpt/flags.h"
#include "libzero/zero.h"

namespace minigpt {

/// All members but those that say nothing of saving or loading are collective.
class Checkpoints {
 public:
  using Say = std::function<void(const std::string&)>;

  /// `windows`: training samples of the data. `say` is called on rank 0 alone. Everything must
  /// outlive this.
  Checkpoints(const Flags& flags, zero::Optimizer& optimizer, zero::Collective& comm,
              std::int64_t windows, Say say);

  /// Opens --checkpoint. Weights from --load-parameters, a whole state from --resume, a first save
  /// for --save-initial. What goes wrong does so on every rank alike, and leaves optimizer and
  /// communicator shut down: no rank takes another's leaving for a failure.
  void begin();

  /// Position in the sample order: what the next step begins with.
  std::int64_t samples_seen() const noexcept { return samples_seen_; }

  /// Before a step: passes on a signal that this rank has received.
  void request_stop_if_signalled();

  /// After each step: moves the position.
  void count_step() { samples_seen_ += flags_.batch; }

  /// Saves after every --save-every steps, and after the last. A disk that refuses costs that save
  /// alone, with a warning; the third time in a row, and after the last step, IoError comes out,
  /// and all ranks leave together as from begin().
  void save_if_due(bool is_last);

  /// After a step that said stop_requested: saves and says so.
  void leave();

  /// Waits for a save under way.
  void finish();

 private:
  template <class Function>
  void together(Function function);
  template <class Function>
  void forgive(Function function);
  void check_flags_of(const zero::LoadReport& report) const;
  void warn_of_changed_flags(const zero::LoadReport& report) const;
  void open_and_take_up();
  bool resume();
  zero::TrainerState trainer_state() const;
  void collect();
  void save();
  void save_for_good();
  void try_to_save();
  std::string who_stopped();

  const Flags& flags_;
  zero::Optimizer& optimizer_;
  zero::Collective& comm_;
  std::int64_t windows_;
  Say say_;
  zero::StopSignals signals_;
  std::optional<zero::Checkpointer> checkpointer_;  // with --checkpoint
  std::string run_id_ = zero::TrainerState().run_id;
  std::int64_t samples_seen_ = 0;
  std::int64_t saved_step_ = -1;    // the newest that lies in --checkpoint
  std::int64_t pending_step_ = -1;  // not yet known to be saved; -1: none
  int failures_in_a_row_ = 0;
};

}  // namespace minigpt
