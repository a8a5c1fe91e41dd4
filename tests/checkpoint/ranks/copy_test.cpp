// The copy past the caches is a copy, whatever the sizes and alignments.

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "checkpoint/ranks/stream_copy.h"

namespace zero::checkpoint {
namespace {

TEST(StreamCopy, CopiesExactlyItsBytesAtEveryAlignmentAndSize) {
  std::vector<std::byte> source(200000), target(source.size());
  for (std::size_t i = 0; i < source.size(); ++i)
    source[i] = static_cast<std::byte>(i * 7 + i / 251);
  for (const std::size_t size :
       {0, 1, 63, 64, 65, 4096, 32767, 32768, 32769, 32831, 32832, 99999}) {
    for (const std::size_t from : {0, 1, 8, 64}) {
      for (std::size_t to = 0; to < 130; to += 13) {
        std::fill(target.begin(), target.end(), std::byte{0xaa});
        stream_copy(std::span(target).subspan(to, size), std::span(source).subspan(from, size));
        ASSERT_TRUE(std::equal(source.begin() + static_cast<std::ptrdiff_t>(from),
                               source.begin() + static_cast<std::ptrdiff_t>(from + size),
                               target.begin() + static_cast<std::ptrdiff_t>(to)))
            << size << " bytes from " << from << " to " << to;
        const auto untouched =
            std::count(target.begin(), target.end(), std::byte{0xaa}) -
            std::count(source.begin() + static_cast<std::ptrdiff_t>(from),
                       source.begin() + static_cast<std::ptrdiff_t>(from + size), std::byte{0xaa});
        ASSERT_EQ(static_cast<std::size_t>(untouched), target.size() - size);
      }
    }
  }
}

}  // namespace
}  // namespace zero::checkpoint
