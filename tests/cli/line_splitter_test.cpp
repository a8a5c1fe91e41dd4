#include "cli/line_splitter.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include <rapidcheck/gtest.h>

namespace zero::cli {
namespace {

using Lines = std::vector<std::pair<std::string, bool>>;  // text, is progress

Lines split(const std::vector<std::string>& pieces, bool eager = false) {
  Lines lines;
  LineSplitter splitter(eager, [&](std::string_view line, LineEnd end) {
    lines.emplace_back(line, end == LineEnd::kProgress);
  });
  for (const std::string& piece : pieces) splitter.feed(piece);
  splitter.finish();
  return lines;
}

TEST(LineSplitter, GivesOutWholeLinesAndTheUnfinishedLastOne) {
  EXPECT_EQ(split({"a\nb", "c\n\nd"}),
            (Lines{{"a", false}, {"bc", false}, {"", false}, {"d", false}}));
}

TEST(LineSplitter, ACarriageReturnEndsAProgressLine) {
  EXPECT_EQ(split({"1%\r2%\rdone\n"}), (Lines{{"1%", true}, {"2%", true}, {"done", false}}));
  EXPECT_EQ(split({"1%\r"}), (Lines{{"1%", true}}));
}

TEST(LineSplitter, CarriageReturnAndNewlineTogetherEndAnOrdinaryLine) {
  EXPECT_EQ(split({"a\r\nb\r", "\nc"}), (Lines{{"a", false}, {"b", false}, {"c", false}}));
}

TEST(LineSplitter, AnEagerOneShowsProgressAtOnceAndCorrectsItself) {
  EXPECT_EQ(split({"1%\r", "2%\r", "\n"}, true),
            (Lines{{"1%", true}, {"2%", true}, {"2%", false}}));
}

TEST(LineSplitter, CutsEndlessLines) {
  const std::string endless(LineSplitter::kMaxLineBytes + 3, 'x');
  const Lines lines = split({endless});
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].first.size(), LineSplitter::kMaxLineBytes);
  EXPECT_EQ(lines[1].first, "xxx");
}

RC_GTEST_PROP(LineSplitter, DoesNotDependOnHowTheBytesArrive, ()) {
  const auto pieces = *rc::gen::container<std::vector<std::string>>(
      rc::gen::container<std::string>(rc::gen::element('a', '\n', '\r')));
  std::string whole;
  for (const std::string& piece : pieces) whole += piece;
  RC_ASSERT(split(pieces) == split({whole}));
}

}  // namespace
}  // namespace zero::cli
