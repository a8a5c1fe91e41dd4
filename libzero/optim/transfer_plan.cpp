#include "libzero/optim/transfer_plan.h"

#include <algorithm>

#include "libzero/base/error.h"

namespace zero {
namespace {

struct Part {
  int rank;
  std::int64_t begin;
  std::int64_t end;
};

/// Who holds which elements of a parameter, in order; nobody holds nothing.
std::vector<Part> parts_of(const Layout& layout, std::int32_t parameter, int world_size) {
  const Slot slot = layout.slot(parameter);
  std::vector<Part> parts;
  for (int rank = 0; rank < world_size; ++rank) {
    const Interval shard = layout.shard(slot.bucket, rank, world_size);
    const std::int64_t begin = std::max<std::int64_t>(shard.begin - slot.offset, 0);
    const std::int64_t end = std::min(shard.end - slot.offset, slot.numel);
    if (begin < end) parts.push_back({rank, begin, end});
  }
  return parts;
}

}  // namespace

std::vector<ShardMove> moves_between(const Layout& before, const Layout& after,
                                     const std::vector<std::int32_t>& sources, int world_size) {
  std::vector<ShardMove> moves;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (sources[i] < 0) continue;
    const auto target = static_cast<std::int32_t>(i);
    ZERO_REQUIRE(
        before.slot(sources[i]).numel == after.slot(target).numel,
        "transfer: a parameter's elements were not as many before: " + after.parameters()[i].name);
    const std::vector<Part> held = parts_of(before, sources[i], world_size);
    auto from = held.begin();
    for (const Part& to : parts_of(after, target, world_size)) {
      for (std::int64_t at = to.begin; at < to.end;) {
        while (from->end <= at) ++from;
        const std::int64_t end = std::min(from->end, to.end);
        moves.push_back({sources[i], target, from->rank, to.rank, at, end});
        at = end;
      }
    }
  }
  return moves;
}

}  // namespace zero
