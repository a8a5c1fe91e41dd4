#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <sstream>

#include "cli/numbers.h"
#include "cli/printable.h"
#include "cli/progress_bar.h"
#include "cli/table.h"

namespace zero::cli::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Printable, HarmlessTextStaysAsItIs) {
  for (const char* text : {"", "embed.weight", "block.\xc3\xa9.bias", "\xe6\x9d\xb1\xe4\xba\xac",
                           "\xf0\x9f\x98\x80", "a b~"}) {
    EXPECT_EQ(printable(text), text);
  }
}

TEST(Printable, WhatCouldRuleATerminalIsWrittenOut) {
  EXPECT_EQ(printable("\033[31m"), "\\x1b[31m");
  EXPECT_EQ(printable("a\rb\nc\td\x7f"), "a\\x0db\\x0ac\\x09d\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"), "\\u009b");
  EXPECT_EQ(printable("\xe2\x80\xae"), "\\u202e");
  EXPECT_EQ(printable("\xf3\xa0\x81\x81"), "\\ue0041");
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
}

TEST(Printable, BytesThatAreNoUtf8AreWrittenOut) {
  EXPECT_EQ(printable("\xff"), "\\xff");
  EXPECT_EQ(printable("\xc3"), "\\xc3");                    // cut
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf");           // too long
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // a surrogate
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(printable("\xe2\x28\xa1"), "\\xe2(\\xa1");
}

TEST(Printable, ColumnsCountWhatATerminalShows) {
  EXPECT_EQ(columns_of("abc"), 3);
  EXPECT_EQ(columns_of("\xc3\xa9"), 1);
  EXPECT_EQ(columns_of("e\xcc\x81"), 1);  // combining
  EXPECT_EQ(columns_of("\xe6\x9d\xb1"), 2);
}

TEST(Printable, ShorteningKeepsBothEndsAndNeverPassesTheWidth) {
  EXPECT_EQ(shortened("abcdefgh", 8), "abcdefgh");
  EXPECT_EQ(shortened("abcdefghi", 8), "abcd\xe2\x80\xa6ghi");
  EXPECT_EQ(shortened("abc", 1), "\xe2\x80\xa6");
  const std::string wide = "\xe6\x9d\xb1\xe4\xba\xac\xe6\x9d\xb1\xe4\xba\xac";
  for (int columns = 1; columns <= 9; ++columns) {
    EXPECT_LE(columns_of(shortened(wide, columns)), columns);
  }
}

TEST(Table, AlignsAndShortensOnlyWhatMayBeShortened) {
  Table table({{"name", Table::Align::kLeft, true}, {"n", Table::Align::kRight}, {"kind"}});
  table.add({"a", "5", "x"});
  table.add({"bbbbbbbbbbbbbbbbbbbb", "1234", "yyyy"});
  EXPECT_EQ(table.text(80),
            "name                     n  kind\n"
            "a                        5  x\n"
            "bbbbbbbbbbbbbbbbbbbb  1234  yyyy\n");
  EXPECT_EQ(table.text(24),
            "name             n  kind\n"
            "a                5  x\n"
            "bbbbbb\xe2\x80\xa6"
            "bbbbb  1234  yyyy\n");
}

TEST(Table, TheWidestFlexibleColumnGivesWayFirst) {
  Table table({{"a", Table::Align::kLeft, true}, {"b", Table::Align::kLeft, true}});
  table.add({std::string(40, 'a'), std::string(12, 'b')});
  EXPECT_THAT(table.text(34), HasSubstr(std::string(12, 'b')));
  std::istringstream lines(table.text(24));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(columns_of(line), 24);
}

TEST(Table, ListsWrapBehindTheirTitle) {
  EXPECT_EQ(titled_list("blobs", {}, 40), "blobs           none\n");
  EXPECT_EQ(titled_list("blobs", {"aaaaaaaaaa", "bbbbbbbbbb", "c"}, 30),
            "blobs           aaaaaaaaaa,\n                bbbbbbbbbb, c\n");
}

TEST(Numbers, AreShortAndExact) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(1024), "1.0 KiB");
  EXPECT_EQ(bytes_text(1048575), "1.0 MiB");
  EXPECT_EQ(bytes_text(std::uint64_t{5} << 30), "5.0 GiB");
  EXPECT_EQ(bytes_text(~std::uint64_t{0}), "16.0 EiB");
  EXPECT_EQ(duration_text(4.2), "0:04");
  EXPECT_EQ(duration_text(3725), "1:02:05");
  EXPECT_EQ(duration_text(std::numeric_limits<double>::infinity()), "100 h or more");
}

TEST(Numbers, SizesMayHaveAUnit) {
  EXPECT_EQ(parse_bytes("0"), 0u);
  EXPECT_EQ(parse_bytes("1048576"), 1048576u);
  EXPECT_EQ(parse_bytes("010"), 10u);
  EXPECT_EQ(parse_bytes("2k"), 2048u);
  EXPECT_EQ(parse_bytes("64M"), std::uint64_t{64} << 20);
  EXPECT_EQ(parse_bytes("5GiB"), std::uint64_t{5} << 30);
  EXPECT_EQ(parse_bytes("18446744073709551615"), ~std::uint64_t{0});
  EXPECT_EQ(parse_bytes("16777215T"), std::uint64_t{16777215} << 40);
  for (const char* wrong : {"", "M", "-1", "+1", " 1", "1 ", "1.5M", "64X", "64MB", "64M x", "0x10",
                            "18446744073709551616", "16777216T"}) {
    EXPECT_EQ(parse_bytes(wrong), std::nullopt) << wrong;
  }
}

TEST(ProgressLine, SaysHowFarHowFastAndHowLongStill) {
  EXPECT_EQ(progress_line("verify", 512 << 20, std::uint64_t{1} << 30, 2, 100),
            "verify  50% [===============               ] 512.0 MiB of 1.0 GiB, 256.0 MiB/s, "
            "0:02 left");
  EXPECT_EQ(progress_line("verify", 0, 100, 0, 40), "verify   0% [             ] 0 B of 100 B");
  EXPECT_THAT(progress_line("verify", 0, 0, 1, 100), HasSubstr("100%"));
}

TEST(ProgressLine, FitsAnyWidth) {
  for (int width = 1; width < 120; ++width) {
    EXPECT_LE(columns_of(progress_line("reshard", 123456789, 987654321, 12.5, width)), width);
  }
  EXPECT_THAT(progress_line("verify", 1, 2, 1, 46), Not(HasSubstr("[")));
}

}  // namespace
}  // namespace zero::cli::testing
