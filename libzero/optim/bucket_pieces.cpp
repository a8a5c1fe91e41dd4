#include "libzero/optim/bucket_pieces.h"

#include <algorithm>

#include "libzero/collective/collective.h"

namespace zero {
namespace {

std::int64_t blocks_of(std::int64_t elements) {
  return elements / kEpilogueBlock + (elements % kEpilogueBlock != 0 ? 1 : 0);
}

/// Elements of one rank's part of a piece: a multiple of kEpilogueBlock.
std::int64_t piece_count(const Layout& layout, std::int32_t bucket, int world_size,
                         std::int64_t slice) {
  const DType dtype = layout.buckets()[static_cast<std::size_t>(bucket)].dtype;
  const std::int64_t cap = blocks_of(layout.options().bucket_bytes / size_of(dtype));
  const std::int64_t most = std::max<std::int64_t>(1, (cap + world_size - 1) / world_size);
  const std::int64_t pieces = (blocks_of(slice) + most - 1) / most;
  return (blocks_of(slice) + pieces - 1) / pieces * kEpilogueBlock;
}

std::vector<StagedRun> runs_of(const Layout& layout, std::int32_t bucket, int world_size,
                               const BucketPiece& piece, std::int64_t slice) {
  const std::int64_t numel = layout.buckets()[static_cast<std::size_t>(bucket)].numel;
  std::vector<StagedRun> runs;
  for (int rank = 0; rank < world_size; ++rank) {
    const std::int64_t begin = rank * slice + piece.begin;
    if (begin >= numel) break;
    const Interval part{begin, std::min(numel, begin + piece.count)};
    for (const Segment& segment : layout.segments(bucket, part)) {
      runs.push_back({segment, rank, rank * piece.count + (segment.bucket_begin - begin)});
    }
  }
  return runs;
}

}  // namespace

std::vector<BucketPiece> make_pieces(const Layout& layout, std::int32_t bucket, int world_size) {
  const std::int64_t slice = layout.padded_shard_numel(bucket, world_size);
  std::vector<BucketPiece> pieces;
  if (slice == 0) return pieces;
  const std::int64_t count = piece_count(layout, bucket, world_size, slice);
  for (std::int64_t begin = 0; begin < slice; begin += count) {
    pieces.push_back({begin, std::min(count, slice - begin), {}});
    pieces.back().runs = runs_of(layout, bucket, world_size, pieces.back(), slice);
  }
  return pieces;
}

std::int64_t largest_piece(const Layout& layout, std::int32_t bucket, int world_size) {
  const std::int64_t slice = layout.padded_shard_numel(bucket, world_size);
  return slice == 0 ? 0 : std::min(slice, piece_count(layout, bucket, world_size, slice));
}

}  // namespace zero
