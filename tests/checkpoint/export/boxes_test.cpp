#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "checkpoint/manifest.h"
#include "checkpoint/view_file.h"

namespace zero::checkpoint {
namespace {

/// The flat positions of a box's elements, in its row-major order.
void list_positions(const Box& box, const std::vector<std::int64_t>& shape, std::size_t level,
                    std::int64_t at, std::vector<std::int64_t>& positions) {
  if (level == shape.size()) {
    positions.push_back(at);
    return;
  }
  for (std::int64_t i = 0; i < box.extent[level]; ++i) {
    list_positions(box, shape, level + 1, at * shape[level] + box.start[level] + i, positions);
  }
}

RC_GTEST_PROP(Boxes, AreTheSameSequenceAsTheRange, ()) {
  const auto dimensions = *rc::gen::inRange<std::size_t>(0, 5);
  const auto shape = *rc::gen::container<std::vector<std::int64_t>>(
      dimensions, rc::gen::inRange<std::int64_t>(1, 6));
  const std::int64_t numel = checked_product(shape);
  const auto begin = *rc::gen::inRange<std::int64_t>(0, numel);
  const auto end = *rc::gen::inRange<std::int64_t>(begin + 1, numel + 1);
  const std::vector<Box> boxes = boxes_of(shape, begin, end);
  std::vector<std::int64_t> positions, expected;
  for (const Box& box : boxes) {
    RC_ASSERT(box.start.size() == shape.size());
    list_positions(box, shape, 0, 0, positions);
  }
  for (std::int64_t i = begin; i < end; ++i) expected.push_back(i);
  RC_ASSERT(positions == expected);
  RC_ASSERT(boxes.size() <= std::max<std::size_t>(1, 2 * shape.size() - (shape.empty() ? 0 : 1)));
}

TEST(Boxes, OfWholeRowsAreOne) {
  EXPECT_EQ(boxes_of({4, 5, 6}, 30, 90), (std::vector<Box>{{{1, 0, 0}, {2, 5, 6}}}));
  EXPECT_EQ(boxes_of({4, 5}, 3, 12),
            (std::vector<Box>{{{0, 3}, {1, 2}}, {{1, 0}, {1, 5}}, {{2, 0}, {1, 2}}}));
  EXPECT_EQ(boxes_of({}, 0, 1).size(), 1u);
}

}  // namespace
}  // namespace zero::checkpoint
