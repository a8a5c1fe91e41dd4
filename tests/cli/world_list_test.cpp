#include "cli/world_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace zero::cli::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;

TEST(Worlds, AreOneAListOrDoubled) {
  EXPECT_THAT(parse_worlds("8"), Optional(ElementsAre(8)));
  EXPECT_THAT(parse_worlds("2,4,6"), Optional(ElementsAre(2, 4, 6)));
  EXPECT_THAT(parse_worlds("8..64"), Optional(ElementsAre(8, 16, 32, 64)));
  EXPECT_THAT(parse_worlds("3..10"), Optional(ElementsAre(3, 6, 10)));
  EXPECT_THAT(parse_worlds("65536..65536"), Optional(ElementsAre(65536)));
}

TEST(Counts, AreExact) {
  EXPECT_THAT(parse_count("7B"), Optional(7'000'000'000));
  EXPECT_THAT(parse_count("1.5b"), Optional(1'500'000'000));
  EXPECT_THAT(parse_count("124M"), Optional(124'000'000));
  EXPECT_THAT(parse_count("2k"), Optional(2000));
  EXPECT_THAT(parse_count("1T"), Optional(1'000'000'000'000));
  EXPECT_THAT(parse_count("1125899906842624"), Optional(std::int64_t{1} << 50));
  for (const char* wrong : {"", "0", "B", "-1", "1.5", "1.0001B", "7BB", "1.B", ".5B", "2000T",
                            "1125899906842625", "99999999999999999999", "+1", " 1", "1e9"}) {
    EXPECT_EQ(parse_count(wrong), std::nullopt) << wrong;
  }
}

}  // namespace
}  // namespace zero::cli::testing
