#include "libzero/base/arena.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

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
  // Not neighbours either: a load that runs ahead in one array must not meet a store in another.
  std::uintptr_t before = *offsets.rbegin() - 4096;
  for (const std::uintptr_t offset : offsets) {
    EXPECT_GE(offset - before, 512u) << offset;
    before = offset;
  }
}

TEST(Arena, NoArrayReachesIntoAnother) {
  for (const std::int64_t bytes : {1, 64, 768, 769, 1600, 1601, 4096, 5000, 100'000}) {
    const auto arena = std::make_shared<Arena>(7 * Arena::room_for(bytes));
    std::vector<std::byte*> arrays;
    for (int i = 0; i < 7; ++i) {
      arrays.push_back(arena->take(bytes));
      std::fill_n(arrays.back(), bytes, static_cast<std::byte>(i + 1));
    }
    for (int i = 0; i < 7; ++i) {
      const std::byte* const array = arrays[static_cast<std::size_t>(i)];
      EXPECT_EQ(std::count(array, array + bytes, static_cast<std::byte>(i + 1)), bytes)
          << "array " << i << " of " << bytes << " bytes";
    }
  }
}

TEST(Arena, BeginsWithAHugePageAndEveryPageIsPresent) {
  for (int attempt = 0; attempt < 4; ++attempt) {  // wherever the system happens to put it
    constexpr std::int64_t kBytes = 3 << 20;
    Arena arena(Arena::room_for(kBytes));
    std::byte* const base = arena.take(kBytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(base) % (std::uintptr_t{2} << 20), 0u);
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    std::vector<unsigned char> present(kBytes / page);
    ASSERT_EQ(::mincore(base, present.size() * page, present.data()), 0);
    EXPECT_EQ(std::count_if(present.begin(), present.end(), [](auto p) { return (p & 1) == 0; }),
              0);
  }
}

TEST(Arena, WhatHasNoRoomForTheAlignmentIsRefused) {
  Arena arena(5000);
  EXPECT_THROW(arena.take(5000), ContractError);
  EXPECT_THROW(arena.take(1000), ContractError);
  EXPECT_NO_THROW(arena.take(700));
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
