#pragma once

/// Hears of other ranks' deaths and aborts while this rank does something else.

#include <memory>
#include <thread>

#include "backends/nccl/fate.h"
#include "libzero/collective/collective.h"

namespace zero::nccl {

/// A thread that waits in a call which nobody completes before the end. Two communicators are
/// needed, since the rank that others wait for hears nothing itself: all wait for rank 0 in one,
/// and rank 0 waits for rank 1 in the other. A world of one needs none.
class Vigil {
 public:
  /// Collective over `control`. Tells `fate` of whatever ends the waiting. Throws CommError.
  Vigil(Collective& control, Fate& fate);
  ~Vigil();
  Vigil(const Vigil&) = delete;
  Vigil& operator=(const Vigil&) = delete;

  /// Tells the other ranks why this one fails. Any thread; does not block.
  void abort(const std::string& reason) noexcept;

  /// Collective: all ranks end their vigils in peace. Throws CommError if one cannot.
  void end();

 private:
  void watch(Collective& comm, int root);

  Fate& fate_;
  const int rank_;
  std::shared_ptr<Collective> all_;    // of all ranks, who wait for rank 0
  std::shared_ptr<Collective> first_;  // of ranks 0 and 1; rank 0 waits for rank 1
  std::thread thread_;
};

}  // namespace zero::nccl
