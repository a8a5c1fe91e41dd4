#include "checkpoint/hash.h"

#include <gtest/gtest.h>

namespace zero::checkpoint {
namespace {

TEST(Hash, OfNothingIsTheOneThatXxhsumPrints) {
  EXPECT_EQ(to_text(hash_of(std::string_view())), "99aa06d3014798d86001c324468d497f");
}

TEST(Hash, PieceByPieceEqualsAtOnce) {
  const std::string text(100000, 'x');
  const auto bytes = std::as_bytes(std::span(text));
  Hasher hasher;
  for (std::size_t at = 0; at < bytes.size(); at += 777) {
    hasher.add(bytes.subspan(at, std::min<std::size_t>(777, bytes.size() - at)));
  }
  EXPECT_EQ(hasher.value(), hash_of(bytes));
  hasher.reset();
  EXPECT_EQ(hasher.value(), hash_of(std::string_view()));
}

TEST(Hash, TextRoundTripsAndNothingElseIsRead) {
  const Hash hash = hash_of(std::string_view("zero"));
  Hash read;
  ASSERT_TRUE(parse_hash(to_text(hash), read));
  EXPECT_EQ(read, hash);
  for (const char* wrong :
       {"", "99AA06D3014798D86001C324468D497F", "99aa06d3014798d86001c324468d497",
        "99aa06d3014798d86001c324468d497g", " 9aa06d3014798d86001c324468d497f"}) {
    EXPECT_FALSE(parse_hash(wrong, read)) << wrong;
  }
}

}  // namespace
}  // namespace zero::checkpoint
