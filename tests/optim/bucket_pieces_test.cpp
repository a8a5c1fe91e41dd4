#include "libzero/optim/bucket_pieces.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

namespace zero {
namespace {

constexpr std::int64_t kBlock = 4096;

Layout layout_of(const std::vector<std::int64_t>& sizes, std::int64_t cap, std::int64_t alignment) {
  std::vector<ParameterSpec> specs;
  for (const std::int64_t size : sizes)
    specs.push_back({.name = "p" + std::to_string(specs.size()), .shape = {size}});
  return Layout(specs,
                {.bucket_bytes = cap, .first_bucket_bytes = cap, .shard_alignment = alignment});
}

/// How often each element of the bucket travels; checks that runs lie in their rank's part.
std::vector<int> travels(const Layout& layout, std::int32_t bucket, int world_size,
                         const std::vector<BucketPiece>& pieces) {
  std::vector<int> count(
      static_cast<std::size_t>(layout.buckets()[static_cast<std::size_t>(bucket)].numel), 0);
  for (const BucketPiece& piece : pieces) {
    std::int64_t filled = 0;
    for (const auto& [segment, rank, staged] : piece.runs) {
      RC_ASSERT(staged >= filled);
      filled = staged + segment.numel;
      const Interval owned = layout.shard(bucket, rank, world_size);
      RC_ASSERT(staged - rank * piece.count + piece.begin == segment.bucket_begin - owned.begin);
      RC_ASSERT(staged >= rank * piece.count && filled <= (rank + 1) * piece.count);
      for (std::int64_t i = 0; i < segment.numel; ++i)
        ++count[static_cast<std::size_t>(segment.bucket_begin + i)];
    }
  }
  return count;
}

RC_GTEST_PROP(BucketPieces, CarryEachElementOnceInPiecesOfTheCapThatBeginAtBlocks, ()) {
  const auto size = rc::gen::inRange<std::int64_t>(0, 70'000);
  const auto sizes = *rc::gen::nonEmpty(rc::gen::container<std::vector<std::int64_t>>(size));
  const auto cap = *rc::gen::inRange<std::int64_t>(1, 200'000);
  const int world_size = *rc::gen::inRange(1, 6);
  const auto alignment = *rc::gen::element<std::int64_t>(1, 64, kBlock, 3 * kBlock);
  const Layout layout = layout_of(sizes, cap, alignment);
  for (std::int32_t b = 0; b < static_cast<std::int32_t>(layout.buckets().size()); ++b) {
    const std::int64_t slice = layout.padded_shard_numel(b, world_size);
    const auto pieces = make_pieces(layout, b, world_size);
    std::int64_t begin = 0, largest = 0;
    for (const BucketPiece& piece : pieces) {
      largest = std::max(largest, piece.count);
      RC_ASSERT(piece.begin == begin);
      RC_ASSERT(piece.begin % kBlock == 0);
      RC_ASSERT(piece.count * world_size <= cap / 4 + (world_size + 1) * kBlock);
      begin += piece.count;
    }
    RC_ASSERT(begin == slice);
    RC_ASSERT(largest == largest_piece(layout, b, world_size));
    const auto count = travels(layout, b, world_size, pieces);
    std::int64_t elements = 0;
    for (const std::int32_t p : layout.buckets()[static_cast<std::size_t>(b)].parameters)
      elements += layout.slot(p).numel;
    RC_ASSERT(std::count(count.begin(), count.end(), 1) == elements);
    RC_ASSERT(std::count(count.begin(), count.end(), 0) ==
              static_cast<std::int64_t>(count.size()) - elements);
  }
}

TEST(BucketPieces, ABucketWithinTheCapTravelsWhole) {
  for (const int world_size : {1, 2, 3, 8}) {
    const Layout layout = layout_of({50'000, 10'000, 5'000}, 65'536 * 4, kBlock);
    ASSERT_EQ(layout.buckets().size(), 1u);
    EXPECT_EQ(make_pieces(layout, 0, world_size).size(), 1u) << world_size;
  }
}

TEST(BucketPieces, ABucketOfNoElementDoesNotTravel) {
  const Layout layout = layout_of({0}, 100, kBlock);
  ASSERT_EQ(layout.buckets().size(), 1u);
  EXPECT_TRUE(make_pieces(layout, 0, 3).empty());
}

}  // namespace
}  // namespace zero
