#pragma once

/// How a bucket travels: whole, or in pieces where one huge parameter fills it. Without LibTorch.

#include <cstdint>
#include <vector>

#include "libzero/layout/layout.h"

namespace zero {

/// A run of one parameter's elements in the buffer in which a piece travels.
struct StagedRun {
  Segment segment;
  int rank = 0;             ///< Whose slice it lies in.
  std::int64_t staged = 0;  ///< Its first element in the buffer.
};

/// Elements [begin, begin + count) of every rank's slice: the ranks' parts lie one after the other
/// in the buffer, rank r's at r * count. What no run covers are holes and padding.
struct BucketPiece {
  std::int64_t begin = 0;
  std::int64_t count = 0;
  std::vector<StagedRun> runs;  ///< By `staged`.
};

/// Cuts the slices of a bucket so that the buffer holds no more than the cap of a bucket, give or
/// take the padding: a bucket within the cap is one piece, one of no elements none. Pieces begin at
/// multiples of kEpilogueBlock elements of the slice: the bits do not depend on the cuts.
std::vector<BucketPiece> make_pieces(const Layout& layout, std::int32_t bucket, int world_size);

/// The largest `count` of those pieces, 0 where there is none, without making them.
std::int64_t largest_piece(const Layout& layout, std::int32_t bucket, int world_size);

}  // namespace zero
