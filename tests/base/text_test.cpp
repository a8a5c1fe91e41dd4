#include <gtest/gtest.h>

#include <limits>

#include "libzero/base/number_text.h"
#include "libzero/base/shape_text.h"
#include "libzero/base/utf8.h"

namespace zero {
namespace {

using namespace std::string_view_literals;

TEST(NumberText, IsShortAndExact) {
  EXPECT_EQ(number_text(0.1), "0.1");
  EXPECT_EQ(number_text(1e-8), "1e-08");
  EXPECT_EQ(number_text(-std::numeric_limits<double>::infinity()), "-inf");
  EXPECT_EQ(number_text(std::numeric_limits<double>::denorm_min()), "5e-324");
}

TEST(NumberText, OfANaNHasNoSign) {
  EXPECT_EQ(number_text(std::numeric_limits<double>::quiet_NaN()), "nan");
  EXPECT_EQ(number_text(-std::numeric_limits<double>::quiet_NaN()), "nan");
}

TEST(ShapeText, NamesEveryDimension) {
  EXPECT_EQ(shape_text({}), "[]");
  EXPECT_EQ(shape_text({7}), "[7]");
  EXPECT_EQ(shape_text({7, 0, 5}), "[7, 0, 5]");
}

TEST(Utf8, LengthIsThatOfTheFirstCharacter) {
  EXPECT_EQ(utf8_length("a\xc3\xa9"sv), 1u);
  EXPECT_EQ(utf8_length("\0"sv), 1u);
  for (const auto& [smallest, largest] :
       {std::pair{"\xc2\x80"sv, "\xdf\xbf"sv}, std::pair{"\xe0\xa0\x80"sv, "\xef\xbf\xbf"sv},
        std::pair{"\xf0\x90\x80\x80"sv, "\xf4\x8f\xbf\xbf"sv}}) {
    for (const auto text : {smallest, largest}) {
      EXPECT_EQ(utf8_length(text), text.size());
      EXPECT_EQ(utf8_length(std::string(text) + "z"), text.size());
      EXPECT_EQ(utf8_length(text.substr(0, text.size() - 1)), 0u) << "cut short";
    }
  }
}

TEST(Utf8, WhatIsNoneHasNoLength) {
  for (const auto text : {"\x80"sv, "\xbf"sv, "\xc0\x80"sv, "\xc1\xbf"sv, "\xe0\x9f\xbf"sv,
                          "\xed\xa0\x80"sv, "\xed\xbf\xbf"sv, "\xf0\x8f\xbf\xbf"sv,
                          "\xf4\x90\x80\x80"sv, "\xf5\x80\x80\x80"sv, "\xff"sv, "\xc3z"sv}) {
    EXPECT_EQ(utf8_length(text), 0u)
        << text.size() << " bytes, from " << static_cast<int>(static_cast<unsigned char>(text[0]));
  }
}

}  // namespace
}  // namespace zero
