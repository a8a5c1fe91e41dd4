#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "libzero/base/error.h"
#include "libzero/layout/layout.h"

namespace zero {
namespace {

constexpr std::int64_t divide_up(std::int64_t value, std::int64_t divisor) {
  return value / divisor + (value % divisor != 0 ? 1 : 0);
}

void require_world_size(int world_size) {
  ZERO_REQUIRE(world_size >= 1, "The world size must be at least 1: " + std::to_string(world_size));
}

void require_rank(int rank, int world_size) {
  require_world_size(world_size);
  ZERO_REQUIRE(rank >= 0 && rank < world_size,
               "The rank must be at least 0 and less than the world size: rank " +
                   std::to_string(rank) + " of " + std::to_string(world_size));
}

}  // namespace

std::int64_t Layout::padded_shard_numel(std::int32_t bucket, int world_size) const {
  require_world_size(world_size);
  // Blocks first: ceil(ceil(n / A) / N) equals ceil(n / (A * N)) and no product can overflow.
  const std::int64_t blocks = divide_up(checked_bucket(bucket).numel, options_.shard_alignment);
  return divide_up(blocks, world_size) * options_.shard_alignment;
}

Interval Layout::shard(std::int32_t bucket, int rank, int world_size) const {
  require_rank(rank, world_size);
  const std::int64_t numel = checked_bucket(bucket).numel;
  const std::int64_t step = padded_shard_numel(bucket, world_size);
  // r * step < n + A * N <= 2^62 + 2^31 * (2^31 - 1): no overflow.
  const auto cut = [&](std::int64_t r) { return std::min(numel, r * step); };
  return {cut(rank), cut(std::int64_t{rank} + 1)};
}

std::vector<Segment> Layout::segments(std::int32_t bucket, Interval interval) const {
  const std::vector<std::int32_t>& members = checked_bucket(bucket).parameters;
  ZERO_REQUIRE(0 <= interval.begin && interval.begin <= interval.end,
               "An interval must begin at 0 or later and not end before it begins: [" +
                   std::to_string(interval.begin) + ", " + std::to_string(interval.end) +
                   ") of bucket " + std::to_string(bucket));
  const auto slot_of = [&](std::int32_t i) -> const Slot& {
    return slots_[static_cast<std::size_t>(i)];
  };
  auto it = std::partition_point(members.begin(), members.end(), [&](std::int32_t i) {
    return slot_of(i).offset + slot_of(i).numel <= interval.begin;
  });
  std::vector<Segment> result;
  for (; it != members.end() && slot_of(*it).offset < interval.end; ++it) {
    const Slot& slot = slot_of(*it);
    const std::int64_t begin = std::max(interval.begin, slot.offset);
    const std::int64_t end = std::min(interval.end, slot.offset + slot.numel);
    if (begin < end) result.push_back({*it, begin - slot.offset, begin, end - begin});
  }
  return result;
}

std::vector<Extent> Layout::extents(int rank, int world_size) const {
  require_rank(rank, world_size);
  std::vector<Extent> result;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const auto bucket = static_cast<std::int32_t>(b);
    for (const Segment& s : segments(bucket, shard(bucket, rank, world_size))) {
      result.push_back({s.parameter, s.parameter_begin, s.parameter_begin + s.numel});
    }
  }
  // A parameter lies in one bucket and a shard is one interval of it: at most one extent each.
  std::sort(result.begin(), result.end(),
            [](const Extent& a, const Extent& b) { return a.parameter < b.parameter; });
  return result;
}

}  // namespace zero
