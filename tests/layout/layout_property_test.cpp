#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>

#include "libzero/layout/layout.h"
#include "tests/layout/naive_layout.h"

namespace zero {
namespace {

using testing::NaiveBucket;

struct Model {
  std::vector<ParameterSpec> parameters;
  LayoutOptions options;
};

ParameterSpec any_parameter(const std::vector<ParameterSpec>& earlier) {
  ParameterSpec p;
  p.name = std::string("p").append(std::to_string(earlier.size()));
  p.group = *rc::gen::inRange(0, 3);
  if (!earlier.empty() && *rc::gen::inRange(0, 6) == 0) {
    const int owner = *rc::gen::inRange(0, static_cast<int>(earlier.size()));
    if (earlier[static_cast<std::size_t>(owner)].alias_of == -1) {
      const std::string name = p.name;
      p = earlier[static_cast<std::size_t>(owner)];
      p.name = name;
      p.alias_of = owner;
      return p;
    }
  }
  const int dimensions = *rc::gen::inRange(0, 4);
  for (int d = 0; d < dimensions; ++d) {
    p.shape.push_back(*rc::gen::weightedElement<int>({{1, 0}, {4, 1}, {4, 3}, {4, 8}, {3, 17}}));
  }
  p.dtype = *rc::gen::element(DType::kFloat32, DType::kBFloat16, DType::kFloat16);
  p.trainable = *rc::gen::weightedElement<bool>({{5, true}, {1, false}});
  if (!p.trainable && *rc::gen::arbitrary<bool>()) p.dtype = DType::kInt64;
  return p;
}

Model any_model() {
  Model model;
  const int count = *rc::gen::inRange(0, 14);
  for (int i = 0; i < count; ++i) model.parameters.push_back(any_parameter(model.parameters));
  model.options.first_bucket_bytes = *rc::gen::element(1, 256, 1024, 1 << 20);
  model.options.bucket_bytes = *rc::gen::element(2, 256, 900, 4096, 25 << 20);
  model.options.shard_alignment = *rc::gen::element(1, 3, 64, 100, 4096);
  return model;
}

RC_GTEST_PROP(LayoutProperty, BucketsAndSlotsEqualTheNaiveModel, ()) {
  const Model model = any_model();
  const Layout layout(model.parameters, model.options);
  const auto naive = testing::naive_buckets(model.parameters, model.options);
  RC_ASSERT(layout.buckets().size() == naive.size());
  for (std::size_t b = 0; b < naive.size(); ++b) {
    const Bucket& bucket = layout.buckets()[b];
    RC_ASSERT(bucket.dtype == naive[b].dtype);
    RC_ASSERT(bucket.parameters == naive[b].parameters);
    RC_ASSERT(bucket.numel == static_cast<std::int64_t>(naive[b].positions.size()));
    for (const std::int32_t p : bucket.parameters) {
      const Slot slot = layout.slot(p);
      RC_ASSERT(slot.bucket == static_cast<std::int32_t>(b));
      RC_ASSERT(slot.offset % kSlotAlignment == 0);
      RC_ASSERT(slot.numel == testing::naive_numel(model.parameters[static_cast<std::size_t>(p)]));
      for (std::int64_t i = 0; i < slot.numel; ++i) {
        RC_ASSERT(naive[b].positions[static_cast<std::size_t>(slot.offset + i)] == std::pair(p, i));
      }
    }
  }
}

RC_GTEST_PROP(LayoutProperty, SegmentsOfShardsTileEveryBucketAsTheNaiveModelSays, ()) {
  const Model model = any_model();
  const int world_size = *rc::gen::inRange(1, 9);
  const Layout layout(model.parameters, model.options);
  const auto naive = testing::naive_buckets(model.parameters, model.options);
  for (std::size_t b = 0; b < naive.size(); ++b) {
    const auto bucket = static_cast<std::int32_t>(b);
    const auto numel = static_cast<std::int64_t>(naive[b].positions.size());
    std::vector<int> owner(naive[b].positions.size(), -1);
    std::int64_t expected_begin = 0;
    for (int rank = 0; rank < world_size; ++rank) {
      const Interval shard = layout.shard(bucket, rank, world_size);
      RC_ASSERT(shard.begin == expected_begin);
      RC_ASSERT(shard.size() <= layout.padded_shard_numel(bucket, world_size));
      expected_begin = shard.end;
      for (const Segment& s : layout.segments(bucket, shard)) {
        RC_ASSERT(s.numel > 0);
        for (std::int64_t i = 0; i < s.numel; ++i) {
          const auto at = static_cast<std::size_t>(s.bucket_begin + i);
          RC_ASSERT(owner[at] == -1);
          RC_ASSERT(naive[b].positions[at] == std::pair(s.parameter, s.parameter_begin + i));
          owner[at] = rank;
        }
      }
    }
    RC_ASSERT(expected_begin == numel);
    for (std::size_t at = 0; at < owner.size(); ++at) {
      const int expected = naive[b].positions[at].first < 0
                               ? -1
                               : testing::naive_owner(static_cast<std::int64_t>(at), numel,
                                                      model.options.shard_alignment, world_size);
      RC_ASSERT(owner[at] == expected);
    }
  }
}

RC_GTEST_PROP(LayoutProperty, ExtentsTileEveryTrainableParameterExactlyOnce, ()) {
  const Model model = any_model();
  const int world_size = *rc::gen::inRange(1, 9);
  const Layout layout(model.parameters, model.options);
  std::vector<std::vector<int>> visits;
  for (const ParameterSpec& p : model.parameters) {
    visits.emplace_back(static_cast<std::size_t>(testing::naive_numel(p)), 0);
  }
  for (int rank = 0; rank < world_size; ++rank) {
    std::pair<std::int32_t, std::int64_t> previous{-1, 0};
    for (const Extent& e : layout.extents(rank, world_size)) {
      RC_ASSERT(previous < std::pair(e.parameter, e.begin));
      RC_ASSERT(e.begin < e.end);
      previous = {e.parameter, e.begin};
      const Slot slot = layout.slot(e.parameter);
      const Interval shard = layout.shard(slot.bucket, rank, world_size);
      RC_ASSERT(shard.begin <= slot.offset + e.begin);
      RC_ASSERT(slot.offset + e.end <= shard.end);
      for (std::int64_t i = e.begin; i < e.end; ++i) {
        ++visits[static_cast<std::size_t>(e.parameter)][static_cast<std::size_t>(i)];
      }
    }
  }
  for (std::size_t p = 0; p < visits.size(); ++p) {
    const bool laid_out = model.parameters[p].trainable && model.parameters[p].alias_of == -1;
    for (const int count : visits[p]) RC_ASSERT(count == (laid_out ? 1 : 0));
  }
}

RC_GTEST_PROP(LayoutProperty, SegmentsOfAnyIntervalAreThoseOfTheWholeCutToIt, ()) {
  const Model model = any_model();
  const Layout layout(model.parameters, model.options);
  const auto naive = testing::naive_buckets(model.parameters, model.options);
  RC_PRE(!naive.empty());
  const auto b = *rc::gen::inRange<std::size_t>(0, naive.size());
  const auto numel = static_cast<std::int64_t>(naive[b].positions.size());
  const auto begin = *rc::gen::inRange<std::int64_t>(0, numel + 70);
  const auto end = *rc::gen::inRange<std::int64_t>(begin, numel + 71);
  std::vector<std::pair<std::int32_t, std::int64_t>> seen;
  for (const Segment& s : layout.segments(static_cast<std::int32_t>(b), {begin, end})) {
    for (std::int64_t i = 0; i < s.numel; ++i) seen.push_back({s.parameter, s.parameter_begin + i});
  }
  std::vector<std::pair<std::int32_t, std::int64_t>> expected;
  for (std::int64_t at = begin; at < std::min(end, numel); ++at) {
    const auto& position = naive[b].positions[static_cast<std::size_t>(at)];
    if (position.first >= 0) expected.push_back(position);
  }
  RC_ASSERT(seen == expected);
}

RC_GTEST_PROP(LayoutProperty, AliasesShareTheOwnersSlotAndFrozenOnesHaveNone, ()) {
  const Model model = any_model();
  const Layout layout(model.parameters, model.options);
  for (std::size_t i = 0; i < model.parameters.size(); ++i) {
    const ParameterSpec& p = model.parameters[i];
    const Slot slot = layout.slot(static_cast<std::int32_t>(i));
    RC_ASSERT(slot.numel == testing::naive_numel(p));
    RC_ASSERT((slot.bucket == -1) == !p.trainable);
    if (p.alias_of < 0) continue;
    const Slot owner = layout.slot(p.alias_of);
    RC_ASSERT(slot.bucket == owner.bucket);
    RC_ASSERT(slot.offset == owner.offset);
  }
}

}  // namespace
}  // namespace zero
