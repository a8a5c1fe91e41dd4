#include "checkpoint/ownership.h"

#include <algorithm>
#include <string>

namespace zero::checkpoint {
namespace {

std::int64_t counter_or(const CommonState& state, std::string_view name, std::int64_t fallback,
                        std::int64_t largest) {
  const auto found = state.counters.find(std::string(name));
  if (found == state.counters.end() || found->second < 1 || found->second > largest)
    return fallback;
  return found->second;
}

/// floor(numel * rank / world) without its overflow, the remainder going to the first ranks.
std::int64_t equal_cut(std::int64_t numel, int rank, int world_size) {
  return numel / world_size * rank + std::min<std::int64_t>(rank, numel % world_size);
}

}  // namespace

void put_layout_options(CommonState& state, const LayoutOptions& options) {
  state.counters[std::string(kBucketBytes)] = options.bucket_bytes;
  state.counters[std::string(kFirstBucketBytes)] = options.first_bucket_bytes;
  state.counters[std::string(kShardAlignment)] = options.shard_alignment;
}

LayoutOptions layout_options_of(const CommonState& state) {
  constexpr std::int64_t kLargestBucket = std::int64_t{1} << 50;
  const LayoutOptions defaults;
  return {counter_or(state, kBucketBytes, defaults.bucket_bytes, kLargestBucket),
          counter_or(state, kFirstBucketBytes, defaults.first_bucket_bytes, kLargestBucket),
          counter_or(state, kShardAlignment, defaults.shard_alignment, kMaxShardAlignment)};
}

Ownership::Ownership(const CommonState& common, int world_size)
    : layout_(common.parameters, layout_options_of(common)), world_size_(world_size) {}

std::vector<Extent> Ownership::trainable(int rank) const {
  return layout_.extents(rank, world_size_);
}

std::vector<Extent> Ownership::frozen(int rank) const {
  std::vector<Extent> extents;
  const auto parameters = layout_.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const ParameterSpec& spec = parameters[i];
    if (spec.trainable || spec.alias_of >= 0) continue;
    const std::int64_t numel = spec.numel();
    const bool is_buffer = spec.group < 0;
    const std::int64_t begin = is_buffer ? 0 : equal_cut(numel, rank, world_size_);
    const std::int64_t end = is_buffer ? numel : equal_cut(numel, rank + 1, world_size_);
    if (begin < end && (!is_buffer || rank == 0))
      extents.push_back({static_cast<std::int32_t>(i), begin, end});
  }
  return extents;
}

}  // namespace zero::checkpoint
