#pragma once

/// Which elements travel between ranks when one layout's shards become another's. Pure arithmetic,
/// without LibTorch.

#include <cstdint>
#include <vector>

#include "libzero/layout/layout.h"

namespace zero {

/// Elements [begin, end) of a parameter that one rank held and another wants.
struct ShardMove {
  std::int32_t source = 0;  ///< Row of the layout before.
  std::int32_t target = 0;  ///< Row of the layout after, of the same number of elements.
  int from = 0;             ///< Rank.
  int to = 0;               ///< Rank; may be the same.
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t size() const noexcept { return end - begin; }
};

/// Of every rank, in order of targets, then of elements: the same on every rank. `sources`: for
/// each row after, the row before that it takes its elements from, or -1.
std::vector<ShardMove> moves_between(const Layout& before, const Layout& after,
                                     const std::vector<std::int32_t>& sources, int world_size);

}  // namespace zero
