#pragma once

/// Saving while training goes on: a copy is taken at once, the disk follows on a thread of its own.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "checkpoint/ranks/save.h"

namespace zero::checkpoint {

/// At most one save is in flight. All members are called by one thread, in the same order on every
/// rank; they are collective only as far as the saves themselves are.
class BackgroundSaver {
 public:
  /// `comm` is used by the saver's thread alone: a communicator of its own (split()). Whoever made
  /// it shuts it down, once this is destroyed on all ranks. Throws ContractError for a null.
  BackgroundSaver(std::shared_ptr<Store> store, std::shared_ptr<Collective> comm);

  /// Waits for the save in flight, never throws; a failure that nobody asked for is lost.
  ~BackgroundSaver();

  /// Waits for the save in flight and throws its error, if it has one (the new save is not started
  /// then). Otherwise copies `common` and the memory that `part` points to (or what its functions
  /// give), and returns: what the caller changes afterwards is not in the checkpoint. The copy's
  /// memory is kept for the next call; where there is none, the save fails on all ranks as if this
  /// one had refused it. An outcome that nobody asked for before is dropped.
  void start(const CommonState& common, const RankPart& part);

  /// The outcome of a save that has ended since the last call, once; nothing while one is in flight
  /// or none was started. Throws its error, once. Never blocks.
  std::optional<SaveOutcome> poll();

  /// Waits for the save in flight; as poll() otherwise.
  std::optional<SaveOutcome> wait();

  bool in_flight() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace zero::checkpoint
