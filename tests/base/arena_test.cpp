#include "libzero/base/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>

#include "libzero/base/error.h"

namespace zero {
namespace {

TEST(Arena, ArraysAreZeroAlignedAndApart) {
  const auto arena = std::make_shared<Arena>(3 * Arena::room_for(4 * 1000));
  ArenaArray<float> a(arena, 1000), b(arena, 1000), c(arena, 1000);
  for (ArenaArray<float>* array : {&a, &b, &c}) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(array->data()) % 64, 0u);
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(array->data()[i], 0.0f);
    std::fill_n(array->data(), 1000, 1.0f);
  }
  EXPECT_GE(b.data() - a.data(), 1000);
  EXPECT_GE(c.data() - b.data(), 1000);
}

TEST(Arena, FiveArraysSideBySideBeginAtDifferentOffsetsOfAPage) {
  const auto arena = std::make_shared<Arena>(5 * Arena::room_for(1 << 16));
  std::set<std::uintptr_t> offsets;
  for (int i = 0; i < 5; ++i)
    offsets.insert(reinterpret_cast<std::uintptr_t>(arena->take(1 << 16)) % 4096);
  EXPECT_EQ(offsets.size(), 5u);
}

TEST(Arena, ExactlyWhatWasAskedForFits) {
  for (const std::int64_t bytes : {0, 1, 63, 64, 767, 768, 769, 4096, 5000, 1 << 21}) {
    const auto arena = std::make_shared<Arena>(7 * Arena::room_for(bytes));
    for (int i = 0; i < 7; ++i) std::fill_n(arena->take(bytes), bytes, std::byte{0xff});
    EXPECT_THROW(arena->take(8192), ContractError);
  }
}

TEST(Arena, AnArrayKeepsItAlive) {
  auto arena = std::make_shared<Arena>(Arena::room_for(40));
  ArenaArray<float> array(arena, 10);
  arena.reset();
  array.data()[9] = 2.0f;
  EXPECT_EQ(array.data()[9], 2.0f);
  EXPECT_EQ(array.bytes(), 40);
}

TEST(Arena, NegativeSizesAreRefused) {
  EXPECT_THROW(Arena(-1), ContractError);
  Arena arena(4096);
  EXPECT_THROW(arena.take(-1), ContractError);
}

}  // namespace
}  // namespace zero
