#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include "backends/gloo/lane.h"

namespace zero::gloo_backend {

/// The payload of the present call. Lanes are kept for the next one, unless this one went wrong.
/// One thread.
class Transfers {
 public:
  Transfers(Links* links, Fate& fate) : links_(links), fate_(fate) {}

  /// Lanes are stable in memory until the call ends. Throws Interrupted.
  Lane& open(int peer, const void* data, std::size_t bytes);
  /// Those of this call, in the order of opening.
  std::size_t count() const { return open_; }
  Lane& lane(std::size_t index) { return lanes_[index]; }

  void wait_all() {
    for (std::size_t i = 0; i < open_; ++i) lanes_[i].wait_all();
  }

  /// At the end of the call: the memory is the caller's again.
  void close() noexcept;

  /// After an interruption: of the peers that owe something, those that are furthest behind. The
  /// others most likely wait for these, as we do.
  std::vector<int> laggards();

 private:
  Links* links_;
  Fate& fate_;
  std::deque<Lane> lanes_;
  std::size_t open_ = 0;  // the first so many belong to this call
};

}  // namespace zero::gloo_backend
