/// Who sends what to whom when shards change hands.

#include "libzero/optim/transfer_plan.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>
#include <string>

namespace zero {
namespace {

Layout layout_of(const std::vector<std::int64_t>& sizes, std::int64_t bucket_bytes) {
  std::vector<ParameterSpec> specs;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    specs.push_back({.name = "p" + std::to_string(i), .shape = {sizes[i]}});
  return Layout(std::move(specs), {bucket_bytes, bucket_bytes / 2 + 1, 64});
}

bool owns(const Layout& layout, int rank, int world, std::int32_t parameter, std::int64_t element) {
  for (const Extent& extent : layout.extents(rank, world)) {
    if (extent.parameter == parameter && extent.begin <= element && element < extent.end)
      return true;
  }
  return false;
}

RC_GTEST_PROP(TransferPlan, EveryElementGoesOnceFromItsOwnerToItsOwner, ()) {
  const auto sizes = *rc::gen::nonEmpty(
      rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(0, 700)));
  const int world = *rc::gen::inRange(1, 6);
  const std::int64_t cap = *rc::gen::inRange<std::int64_t>(1, 4000);
  std::vector<std::int32_t> sources(sizes.size());
  std::iota(sources.rbegin(), sources.rend(), 0);  // the order of parameters turns around
  const std::vector<std::int64_t> turned(sizes.rbegin(), sizes.rend());
  const Layout before = layout_of(sizes, cap), after = layout_of(turned, 3 * cap);
  std::size_t at = 0;
  const auto moves = moves_between(before, after, sources, world);
  for (std::size_t target = 0; target < sources.size(); ++target) {
    std::int64_t next = 0;
    for (; at < moves.size() && moves[at].target == static_cast<std::int32_t>(target); ++at) {
      const ShardMove& move = moves[at];
      RC_ASSERT(move.source == sources[target]);
      RC_ASSERT(move.begin == next);
      RC_ASSERT(move.end > next);
      next = move.end;
      for (const std::int64_t element : {move.begin, move.end - 1}) {
        RC_ASSERT(owns(before, move.from, world, move.source, element));
        RC_ASSERT(owns(after, move.to, world, move.target, element));
      }
    }
    RC_ASSERT(next == turned[target]);
  }
  RC_ASSERT(at == moves.size());
}

TEST(TransferPlan, WithoutASourceNothingMoves) {
  const Layout layout = layout_of({100, 200}, 1000);
  EXPECT_TRUE(moves_between(layout, layout, {-1, -1}, 2).empty());
}

}  // namespace
}  // namespace zero
