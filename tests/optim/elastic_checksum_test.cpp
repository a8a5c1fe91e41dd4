#include "libzero/base/checksum.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace zero {
namespace {

std::vector<std::byte> bytes(std::size_t size) {
  std::vector<std::byte> data(size);
  for (std::size_t i = 0; i < size; ++i) data[i] = static_cast<std::byte>(i * 37 + i / 256);
  return data;
}

TEST(Checksum, EveryBitOfEveryByteCounts) {
  for (const std::size_t size : {1u, 2u, 7u, 8u, 9u, 63u, 64u, 65u, 71u, 72u, 300u}) {
    std::vector<std::byte> data = bytes(size);
    std::set<std::uint64_t> seen = {checksum(data)};
    for (std::size_t bit = 0; bit < size * 8; ++bit) {
      data[bit / 8] ^= std::byte{1} << (bit % 8);
      EXPECT_TRUE(seen.insert(checksum(data)).second) << "bit " << bit << " of " << size;
      data[bit / 8] ^= std::byte{1} << (bit % 8);
    }
  }
}

TEST(Checksum, ZerosOfEveryLengthDiffer) {
  const std::vector<std::byte> zeros(1000);
  std::set<std::uint64_t> seen;
  for (std::size_t size = 0; size <= zeros.size(); ++size)
    EXPECT_TRUE(seen.insert(checksum(std::span(zeros).first(size))).second) << size;
}

TEST(Checksum, TheOrderOfWordsCountsWithinAndAcrossLanes) {
  const std::vector<std::byte> data = bytes(256);
  std::set<std::uint64_t> seen = {checksum(data)};
  for (std::size_t a = 0; a < 32; ++a) {
    for (std::size_t b = a + 1; b < 32; ++b) {
      std::vector<std::byte> swapped = data;
      for (std::size_t i = 0; i < 8; ++i) std::swap(swapped[a * 8 + i], swapped[b * 8 + i]);
      EXPECT_TRUE(seen.insert(checksum(swapped)).second) << a << " and " << b;
    }
  }
}

/// The sign bit sits where multiplication carries nothing further.
TEST(Checksum, TwoChangedSignsDoNotCancel) {
  const std::vector<std::byte> data = bytes(1024);
  const std::uint64_t before = checksum(data);
  for (std::size_t a = 7; a < data.size(); a += 8) {
    for (std::size_t b = a + 8; b < data.size(); b += 8) {
      std::vector<std::byte> changed = data;
      changed[a] ^= std::byte{0x80};
      changed[b] ^= std::byte{0x80};
      EXPECT_NE(checksum(changed), before) << a << " and " << b;
    }
  }
}

TEST(Checksum, AlignmentDoesNotMatter) {
  const std::vector<std::byte> data = bytes(200);
  for (std::size_t shift = 1; shift < 8; ++shift) {
    std::vector<std::byte> moved(shift);
    moved.insert(moved.end(), data.begin(), data.end());
    EXPECT_EQ(checksum(std::span(moved).subspan(shift)), checksum(data)) << shift;
  }
}

}  // namespace
}  // namespace zero
