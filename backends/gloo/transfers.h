#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include "backends/gloo/lane.h"

namespace zero::gloo_backend {

/// The payload of one call: its lanes live exactly as long as the call. One thread.
class Transfers {
 public:
  Transfers(Links* links, Fate& fate) : links_(links), fate_(fate) {}

  /// Lanes are stable in memory.
  Lane& open(int peer, void* data, std::size_t bytes) {
    return lanes_.emplace_back(*links_, fate_, peer, data, bytes);
  }
  Lane& open(int peer, const void* data, std::size_t bytes) {
    return lanes_.emplace_back(*links_, fate_, peer, data, bytes);
  }
  void wait_all() {
    for (Lane& lane : lanes_) lane.wait_all();
  }

  /// After an interruption: of the peers that owe something, those that are furthest behind. The
  /// others most likely wait for these, as we do.
  std::vector<int> laggards();

 private:
  Links* links_;
  Fate& fate_;
  std::deque<Lane> lanes_;
};

}  // namespace zero::gloo_backend
