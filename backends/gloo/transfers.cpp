#include "backends/gloo/transfers.h"

#include <algorithm>
#include <limits>

namespace zero::gloo_backend {

Lane& Transfers::open(int peer, const void* data, std::size_t bytes) {
  fate_.require_calm();
  if (open_ == lanes_.size()) lanes_.emplace_back(*links_, fate_);
  Lane& lane = lanes_[open_++];
  lane.aim(peer, data, bytes);
  return lane;
}

void Transfers::close() noexcept {
  const bool all_done =
      std::none_of(lanes_.begin(), lanes_.end(), [](const Lane& lane) { return lane.waits(); });
  if (!all_done) lanes_.clear();  // takes the memory away from Gloo
  open_ = 0;
}

std::vector<int> Transfers::laggards() {
  std::vector<int> owing;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (std::size_t i = 0; i < open_; ++i) {
    Lane& lane = lanes_[i];
    lane.settle();
    if (lane.receives_outstanding() > 0) least = std::min(least, lane.received());
  }
  for (std::size_t i = 0; i < open_; ++i) {
    const Lane& lane = lanes_[i];
    const bool owes_most = lane.receives_outstanding() > 0 && lane.received() == least;
    const bool takes_nothing = least == std::numeric_limits<std::int64_t>::max() && lane.waits();
    if (owes_most || takes_nothing) owing.push_back(lane.peer());
  }
  std::sort(owing.begin(), owing.end());
  owing.erase(std::unique(owing.begin(), owing.end()), owing.end());
  return owing;
}

}  // namespace zero::gloo_backend
