#include "libzero/optim/offload_spans.h"

#include <algorithm>

namespace zero {
namespace {

using Kept = std::array<bool, kOffloadedArrays>;

bool is_own_master(const Bucket& bucket) {
  return bucket.dtype == DType::kFloat32;
}

/// Stage 0 steps a bucket piece by piece, and of each piece one rank's part after the other.
void add_pieces(const Layout& layout, std::int32_t bucket, const BucketState& state, Kept has,
                int world_size, std::vector<OffloadSpan>& spans) {
  const std::int64_t slice = layout.padded_shard_numel(bucket, world_size);
  const std::int64_t numel = state.stepped.size();
  for (std::size_t i = 0; i < state.pieces.size(); ++i) {
    const BucketPiece& piece = state.pieces[i];
    for (int rank = 0; rank < world_size; ++rank) {
      const std::int64_t begin = rank * slice + piece.begin;
      if (begin >= numel) break;
      spans.push_back(
          {bucket, static_cast<std::int32_t>(i), begin, std::min(numel, begin + piece.count), has});
    }
  }
}

}  // namespace

std::vector<OffloadSpan> offload_spans(const Layout& layout, const std::vector<BucketState>& states,
                                       int stage, int world_size) {
  std::vector<OffloadSpan> spans;
  for (std::size_t b = 0; b < states.size(); ++b) {
    const auto bucket = static_cast<std::int32_t>(b);
    Kept has = {!is_own_master(layout.buckets()[b])};
    std::fill_n(has.begin() + 1, states[b].kept.size(), true);
    if (std::none_of(has.begin(), has.end(), [](bool is_kept) { return is_kept; })) continue;
    if (stage == 0) {
      add_pieces(layout, bucket, states[b], has, world_size, spans);
    } else {
      spans.push_back({bucket, 0, 0, states[b].stepped.size(), has});
    }
  }
  return spans;
}

std::vector<OffloadSpan> own_master_spans(const Layout& layout,
                                          const std::vector<BucketState>& states) {
  std::vector<OffloadSpan> spans;
  for (std::size_t b = 0; b < states.size(); ++b) {
    if (is_own_master(layout.buckets()[b]))
      spans.push_back({static_cast<std::int32_t>(b),
                       0,
                       0,
                       states[b].stepped.size(),
                       {true, false, false, false}});
  }
  return spans;
}

}  // namespace zero
