#pragma once

/// Saving while training goes on: a copy is taken at once, the disk follows on a thread of its own.

#include <chrono>
#include <memory>
#include <optional>

#include "checkpoint/ranks/save.h"

namespace zero::checkpoint {

/// At most one save is in flight. All members are called by one thread, in the same order on every
/// rank.
class BackgroundSaver {
 public:
  /// `comm` is used by the saver alone: a communicator of its own (split()). Whoever made
  /// it shuts it down, once this is destroyed on all ranks. Throws ContractError for a null.
  BackgroundSaver(std::shared_ptr<Store> store, std::shared_ptr<Collective> comm);

  /// Waits for the save in flight, never throws; a failure that nobody asked for is lost.
  ~BackgroundSaver();

  /// Collective. Waits for the save in flight and throws its error, if it has one (the new save is
  /// not started then). Otherwise copies `common` and the memory that `part` points to (or what its
  /// functions give), agrees with the other ranks, and returns: what the caller changes afterwards
  /// is not in the checkpoint. Throws what agree_to_save() throws, also where a rank has no memory
  /// for the copy: nothing was started. The copy's memory is kept for the next call. An outcome
  /// that nobody asked for before is dropped.
  void start(const CommonState& common, const RankPart& part);

  /// Waits for the save in flight. The outcome of one that has ended since the last call, once;
  /// nothing if none was started. Throws its error, once.
  std::optional<SaveOutcome> wait();

  /// Waits at most so long; false if the save is still in flight. Throws nothing, takes nothing.
  bool wait_for(std::chrono::milliseconds time) noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace zero::checkpoint
