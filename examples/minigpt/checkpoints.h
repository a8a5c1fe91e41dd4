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

  /// Weights from --load-parameters, a whole state from --resume, a first save for --save-initial.
  void begin();

  /// Position in the sample order: what the next step begins with.
  std::int64_t samples_seen() const noexcept { return samples_seen_; }

  /// Before a step: passes on a signal that this rank has received.
  void request_stop_if_signalled();

  /// After each step: moves the position.
  void count_step() { samples_seen_ += flags_.batch; }

  /// Saves after every --save-every steps, and after the last.
  void save_if_due(bool is_last);

  /// After a step that said stop_requested: saves and says so.
  void leave();

  /// Waits for a save under way.
  void finish();

 private:
  void check_flags_of(const zero::LoadReport& report) const;
  void take_up();
  bool resume();
  void save();
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
  std::int64_t saved_step_ = -1;  // the newest that lies in --checkpoint
};

}  // namespace minigpt
