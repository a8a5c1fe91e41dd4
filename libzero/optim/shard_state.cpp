#include "libzero/optim/shard_state.h"

#include "libzero/kernels/block_norm.h"

namespace zero {
namespace {

std::int64_t numel_of(const std::vector<Segment>& segments) {
  std::int64_t total = 0;
  for (const Segment& segment : segments) total += segment.numel;
  return total;
}

BucketState make_bucket_state(const Layout& layout, std::int32_t bucket, int stage, int rank,
                              int world_size) {
  const Bucket& description = layout.buckets()[static_cast<std::size_t>(bucket)];
  BucketState state;
  state.owned = layout.shard(bucket, rank, world_size);
  state.stepped = stage == 0 ? Interval{0, description.numel} : state.owned;
  state.accumulator = AlignedArray<float>(layout.padded_shard_numel(bucket, world_size));
  if (description.dtype != DType::kFloat32)
    state.master = AlignedArray<float>(state.stepped.size());
  state.exp_avg = AlignedArray<float>(state.stepped.size());
  state.exp_avg_sq = AlignedArray<float>(state.stepped.size());
  const std::int64_t blocks = (state.accumulator.size() + kNormBlock - 1) / kNormBlock;
  state.block_sums.assign(static_cast<std::size_t>(blocks), 0.0);
  return state;
}

void add_array(const AlignedArray<float>& array, std::int64_t parameter_elements,
               std::int64_t& kind, std::int64_t& alignment) {
  if (array.size() == 0) return;
  const std::int64_t useful = parameter_elements * static_cast<std::int64_t>(sizeof(float));
  kind += useful;
  alignment += array.bytes() - useful;
}

}  // namespace

std::vector<BucketState> make_bucket_states(const Layout& layout, int stage, int rank,
                                            int world_size) {
  std::vector<BucketState> states;
  for (std::size_t b = 0; b < layout.buckets().size(); ++b) {
    states.push_back(
        make_bucket_state(layout, static_cast<std::int32_t>(b), stage, rank, world_size));
  }
  return states;
}

void add_to_report(const Layout& layout, const std::vector<BucketState>& states,
                   MemoryReport& report) {
  for (std::size_t b = 0; b < states.size(); ++b) {
    const BucketState& state = states[b];
    const auto bucket = static_cast<std::int32_t>(b);
    const std::int64_t owned = numel_of(layout.segments(bucket, state.owned));
    const std::int64_t stepped = numel_of(layout.segments(bucket, state.stepped));
    add_array(state.accumulator, owned, report.accumulator, report.alignment);
    add_array(state.master, stepped, report.master, report.alignment);
    add_array(state.exp_avg, stepped, report.exp_avg, report.alignment);
    add_array(state.exp_avg_sq, stepped, report.exp_avg_sq, report.alignment);
  }
}

}  // namespace zero
