#include <algorithm>
#include <vector>

#include "libzero/kernels/cast.h"
#include "libzero/optim/host_update.h"
#include "libzero/optim/tensor_runs.h"

namespace zero {
namespace {

/// Elements that are widened at once.
constexpr std::int64_t kChunk = std::int64_t{1} << 16;

/// A segment, or the part of one that lies in [begin, end) of its bucket.
Segment part_of(const Segment& segment, std::int64_t begin, std::int64_t end) {
  const std::int64_t first = std::max(begin, segment.bucket_begin);
  const std::int64_t last = std::min(end, segment.bucket_begin + segment.numel);
  return {segment.parameter, segment.parameter_begin + (first - segment.bucket_begin), first,
          last - first};
}

float* advanced(float* array, std::int64_t elements) {
  return array == nullptr ? nullptr : array + elements;
}

/// Takes the blocks of one piece of a bucket through memory. `items` are in order of their elements
/// and so are blocks; step(item, part, run, at) is called for each part of an item in a block:
/// where the part begins in the block's arrays.
template <typename Items, typename SegmentOf, typename Step>
void walk_blocks(OffloadedState& offload, std::int32_t bucket, std::int32_t piece,
                 std::int64_t origin, const Items& items, SegmentOf segment_of, Step step) {
  auto item = items.begin();
  while (true) {
    const OffloadBlock* const block = offload.upcoming();
    if (block == nullptr || block->bucket != bucket || block->piece != piece) return;
    const OffloadedRun run = offload.next();
    const std::int64_t begin = origin + block->begin;
    const std::int64_t end = begin + block->count;
    while (item != items.end()) {
      const Segment& segment = segment_of(*item);
      if (segment.bucket_begin >= end) break;
      const Segment part = part_of(segment, begin, end);
      step(*item, part, run, part.bucket_begin - begin);
      if (segment.bucket_begin + segment.numel > end) break;  // goes on in the next block
      ++item;
    }
    offload.release();
  }
}

}  // namespace

HostUpdate::StateRun HostUpdate::state_at(const OffloadedRun& run, std::int64_t at) {
  StateRun state{advanced(run.master, at), {}};
  for (std::size_t i = 0; i < kMostKept; ++i) state.kept[i] = advanced(run.kept[i], at);
  return state;
}

void HostUpdate::step_offloaded_bucket(std::int32_t bucket) {
  if (offload_failure_) return;
  BucketState& state = states_[static_cast<std::size_t>(bucket)];
  const std::int64_t origin = state.stepped.begin;
  const auto step = [&](const Segment&, const Segment& part, const OffloadedRun& run,
                        std::int64_t at) {
    step_segment(part, state_at(run, at), state.accumulator.data() + (part.bucket_begin - origin));
  };
  offload_failure_ = attempt([&] {
    walk_blocks(
        *offload_, bucket, /*piece=*/0, origin, state.stepped_segments,
        [](const Segment& segment) -> const Segment& { return segment; }, step);
  });
}

void HostUpdate::step_offloaded_piece(std::int32_t bucket, std::size_t piece,
                                      const float* gradient) {
  if (offload_failure_) return;
  BucketState& state = states_[static_cast<std::size_t>(bucket)];
  const auto step = [&](const StagedRun& staged, const Segment& part, const OffloadedRun& run,
                        std::int64_t at) {
    step_segment(part, state_at(run, at),
                 gradient + staged.staged + (part.bucket_begin - staged.segment.bucket_begin));
  };
  offload_failure_ = attempt([&] {
    walk_blocks(
        *offload_, bucket, static_cast<std::int32_t>(piece), state.stepped.begin,
        state.pieces[piece].runs,
        [](const StagedRun& run) -> const Segment& { return run.segment; }, step);
  });
}

std::optional<Failure> HostUpdate::finish() {
  if (offload_ == nullptr) return std::nullopt;
  if (!offload_failure_) offload_failure_ = attempt([this] { offload_->finish(); });
  if (offload_failure_) offload_->cancel();
  return std::exchange(offload_failure_, std::nullopt);
}

void HostUpdate::refresh_offloaded_masters(std::int32_t bucket) {
  const BucketState& state = states_[static_cast<std::size_t>(bucket)];
  if (layout_.buckets()[static_cast<std::size_t>(bucket)].dtype == DType::kFloat32) return;
  std::vector<float> values;
  for (const Segment& segment : state.stepped_segments) {
    const auto p = static_cast<std::size_t>(segment.parameter);
    const at::Tensor dense = table_.tensors[p].detach().contiguous();
    for (std::int64_t done = 0; done < segment.numel; done += kChunk) {
      values.resize(static_cast<std::size_t>(std::min(kChunk, segment.numel - done)));
      cast_elements(contiguous_element(dense, segment.parameter_begin + done),
                    table_.specs[p].dtype, values.data(), DType::kFloat32,
                    static_cast<std::int64_t>(values.size()));
      offload_->write(bucket, OffloadedArray::kMaster,
                      segment.bucket_begin - state.stepped.begin + done, values);
    }
  }
}

}  // namespace zero
