#include "backends/gloo/transfers.h"

#include <algorithm>
#include <limits>

namespace zero::gloo_backend {

std::vector<int> Transfers::laggards() {
  std::vector<int> owing;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (Lane& lane : lanes_) {
    lane.settle();
    if (lane.receives_outstanding() > 0) least = std::min(least, lane.received());
  }
  for (const Lane& lane : lanes_) {
    const bool owes_most = lane.receives_outstanding() > 0 && lane.received() == least;
    const bool takes_nothing = least == std::numeric_limits<std::int64_t>::max() && lane.waits();
    if (owes_most || takes_nothing) owing.push_back(lane.peer());
  }
  std::sort(owing.begin(), owing.end());
  owing.erase(std::unique(owing.begin(), owing.end()), owing.end());
  return owing;
}

}  // namespace zero::gloo_backend
