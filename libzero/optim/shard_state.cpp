#include "libzero/optim/shard_state.h"

#include <algorithm>
#include <memory>

#include "libzero/kernels/block_norm.h"

namespace zero {
namespace {

/// Elements of one bucket's arrays.
struct Sizes {
  std::int64_t accumulator = 0;
  std::int64_t master = 0;
  std::int64_t kept = 0;  ///< Of one array.
  std::size_t kept_arrays = 0;

  std::int64_t room() const {
    const auto room_for = [](std::int64_t elements) {
      return Arena::room_for(elements * static_cast<std::int64_t>(sizeof(float)));
    };
    return room_for(accumulator) + room_for(master) +
           static_cast<std::int64_t>(kept_arrays) * room_for(kept);
  }
};

Interval stepped_of(const Layout& layout, std::int32_t bucket, int stage, Interval owned) {
  return stage == 0 ? Interval{0, layout.buckets()[static_cast<std::size_t>(bucket)].numel} : owned;
}

BucketState make_bucket_state(const Sizes& sizes, std::span<const StateKind> kept,
                              const std::shared_ptr<Arena>& arena) {
  BucketState state;
  state.accumulator = ArenaArray<float>(arena, sizes.accumulator);
  state.master = ArenaArray<float>(arena, sizes.master);
  for (const StateKind kind : kept)
    state.kept.push_back({kind, ArenaArray<float>(arena, sizes.kept)});
  const std::int64_t blocks = (sizes.accumulator + kNormBlock - 1) / kNormBlock;
  state.block_sums.assign(static_cast<std::size_t>(blocks), 0.0);
  return state;
}

void add_array(const ArenaArray<float>& array, std::int64_t parameter_elements, std::int64_t& kind,
               std::int64_t& alignment) {
  if (array.size() == 0) return;
  const std::int64_t useful = parameter_elements * static_cast<std::int64_t>(sizeof(float));
  kind += useful;
  alignment += array.bytes() - useful;
}

/// What the arena needs between arrays so that they begin where a page has room.
std::int64_t arena_slack(const BucketState& state) {
  const Sizes sizes{state.accumulator.size(), state.master.size(),
                    state.kept.empty() ? 0 : state.kept[0].values.size(), state.kept.size()};
  std::int64_t slack = sizes.room() - state.accumulator.bytes() - state.master.bytes();
  for (const KeptArray& array : state.kept) slack -= array.values.bytes();
  return slack;
}

}  // namespace

std::vector<BucketState> make_bucket_states(const Layout& layout, int stage, int rank,
                                            int world_size, std::span<const StateKind> kept,
                                            StateMemory memory) {
  std::vector<Sizes> sizes;
  std::int64_t room = 0;
  const auto buckets = static_cast<std::int32_t>(layout.buckets().size());
  for (std::int32_t b = 0; b < buckets; ++b) {
    const Interval owned = layout.shard(b, rank, world_size);
    const std::int64_t numel =
        memory != StateMemory::kAll ? 0 : stepped_of(layout, b, stage, owned).size();
    const bool is_own_master =
        layout.buckets()[static_cast<std::size_t>(b)].dtype == DType::kFloat32;
    const std::int64_t sums =
        memory == StateMemory::kNone ? 0 : layout.padded_shard_numel(b, world_size);
    sizes.push_back({sums, is_own_master ? 0 : numel, numel, kept.size()});
    room += sizes.back().room();
  }
  const auto arena = std::make_shared<Arena>(room);
  std::vector<BucketState> states;
  for (std::int32_t b = 0; b < buckets; ++b) {
    states.push_back(make_bucket_state(sizes[static_cast<std::size_t>(b)], kept, arena));
    BucketState& state = states.back();
    state.owned = layout.shard(b, rank, world_size);
    state.stepped = stepped_of(layout, b, stage, state.owned);
    state.owned_segments = layout.segments(b, state.owned);
    state.stepped_segments = layout.segments(b, state.stepped);
    state.pieces = make_pieces(layout, b, world_size);
  }
  return states;
}

std::int64_t numel_of(const std::vector<Segment>& segments) {
  std::int64_t total = 0;
  for (const Segment& segment : segments) total += segment.numel;
  return total;
}

std::size_t index_of(const BucketState& state, StateKind kind) {
  const auto found = std::find_if(state.kept.begin(), state.kept.end(),
                                  [kind](const KeptArray& array) { return array.kind == kind; });
  return static_cast<std::size_t>(found - state.kept.begin());
}

void add_to_report(const std::vector<BucketState>& states, MemoryReport& report) {
  for (const BucketState& state : states) {
    const std::int64_t owned = numel_of(state.owned_segments);
    const std::int64_t stepped = numel_of(state.stepped_segments);
    report.alignment += arena_slack(state);
    report.block_sums += static_cast<std::int64_t>(state.block_sums.size() * sizeof(double));
    add_array(state.accumulator, owned, report.accumulator, report.alignment);
    add_array(state.master, stepped, report.master, report.alignment);
    for (const KeptArray& array : state.kept)
      add_array(array.values, stepped, bytes_of(report, array.kind), report.alignment);
  }
}

}  // namespace zero
