#include "libzero/collective/call_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstring>
#include <vector>

namespace zero {
namespace {

using Kind = CallVerdict::Kind;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

CallHeader reduce_scatter_of(std::int64_t count, std::string_view label = "bucket 0") {
  return make_call_header(Operation::kReduceScatter, 41, label, DType::kFloat32, count);
}

TEST(CallHeader, EqualCallsMatchWhateverTheirLabels) {
  EXPECT_EQ(compare_calls(std::vector{reduce_scatter_of(8, "a"), reduce_scatter_of(8, "b")}).kind,
            Kind::kMatch);
  EXPECT_EQ(compare_calls(std::vector{reduce_scatter_of(8)}).kind, Kind::kMatch);
}

TEST(CallHeader, ColorAndKeyMayDiffer) {
  CallHeader a = make_call_header(Operation::kSplit, 1, "");
  CallHeader b = a;
  b.color = 3;
  b.key = -1;
  EXPECT_EQ(compare_calls(std::vector{a, b}).kind, Kind::kMatch);
}

TEST(CallHeader, MismatchSaysWhatEachRankAskedFor) {
  const auto gather = make_call_header(Operation::kAllGather, 41, "step vote", DType::kInt64, 12);
  const auto verdict = compare_calls(std::vector{reduce_scatter_of(8192), gather,
                                                 reduce_scatter_of(8192), reduce_scatter_of(8192)});
  EXPECT_EQ(verdict.kind, Kind::kContract);
  EXPECT_THAT(verdict.text,
              HasSubstr("collective #41 does not match: ranks 0, 2, 3: reduce_scatter of 8192 "
                        "float32 [bucket 0]; rank 1: all_gather of 12 int64 [step vote]; "));
}

TEST(CallHeader, EveryComparedFieldMatters) {
  const CallHeader call = make_call_header(Operation::kAllReduce, 5, "", DType::kInt64, 3);
  const auto differs = [&](auto change) {
    CallHeader other = call;
    change(other);
    return compare_calls(std::vector{call, other}).kind == Kind::kContract;
  };
  EXPECT_TRUE(differs([](CallHeader& c) { c.operation = Operation::kBroadcast; }));
  EXPECT_TRUE(differs([](CallHeader& c) { c.dtype = DType::kFloat32; }));
  EXPECT_TRUE(differs([](CallHeader& c) { c.count = 4; }));
  EXPECT_TRUE(differs([](CallHeader& c) { c.reduce_op = 2; }));
  EXPECT_TRUE(differs([](CallHeader& c) { c.root = 1; }));
  EXPECT_TRUE(differs([](CallHeader& c) { c.sequence = 6; }));
}

TEST(CallHeader, DifferentNumbersAreShownForEachRank) {
  CallHeader late = reduce_scatter_of(8);
  late.sequence = 40;
  EXPECT_THAT(compare_calls(std::vector{reduce_scatter_of(8), late}).text,
              AllOf(HasSubstr("rank 0: #41 reduce_scatter"), HasSubstr("rank 1: #40 reduce")));
}

TEST(CallHeader, TextStaysShortHoweverManyRanksDisagree) {
  std::vector<CallHeader> calls;
  for (int r = 0; r < 1000; ++r) calls.push_back(reduce_scatter_of(r, std::string(200, 'x')));
  const auto verdict = compare_calls(calls);
  EXPECT_LT(verdict.text.size(), 4000u);
  EXPECT_THAT(verdict.text, HasSubstr("992 more kinds of call on other ranks"));
}

TEST(CallHeader, ForeignBytesAreAProtocolErrorThatNamesTheRank) {
  CallHeader foreign = reduce_scatter_of(8);
  foreign.magic = 0x20544547;
  auto verdict = compare_calls(std::vector{reduce_scatter_of(8), foreign});
  EXPECT_EQ(verdict.kind, Kind::kProtocol);
  EXPECT_THAT(verdict.text, AllOf(HasSubstr("rank 1"), HasSubstr("0x20544547")));
  foreign = reduce_scatter_of(8);
  foreign.version = 9;
  verdict = compare_calls(std::vector{foreign, reduce_scatter_of(8)});
  EXPECT_EQ(verdict.kind, Kind::kProtocol);
  EXPECT_THAT(verdict.text, AllOf(HasSubstr("rank 0"), HasSubstr("(9, here 1)")));
}

TEST(CallHeader, LabelsAreCutAndMadePrintable) {
  const auto call = reduce_scatter_of(1, "line\nbreak" + std::string(300, 'x'));
  EXPECT_EQ(call.label_length, CallHeader::kLabelBytes);
  EXPECT_THAT(describe(call), AllOf(HasSubstr("[line?breakx"), Not(HasSubstr("\n"))));
}

RC_GTEST_PROP(CallHeader, AnyBytesAreDescribedAndCompared, ()) {
  const auto bytes = *rc::gen::container<std::vector<unsigned char>>(
      sizeof(CallHeader), rc::gen::arbitrary<unsigned char>());
  CallHeader hostile;
  std::memcpy(&hostile, bytes.data(), sizeof hostile);
  RC_ASSERT(compare_calls(std::vector{reduce_scatter_of(1), hostile}).kind == Kind::kProtocol);
  hostile.magic = CallHeader::kMagic;
  hostile.version = CallHeader::kVersion;
  const auto verdict = compare_calls(std::vector{reduce_scatter_of(1), hostile});
  RC_ASSERT(verdict.kind == Kind::kContract);
  RC_ASSERT(describe(hostile).size() < 500u);
}

TEST(CallHeader, FailureTextNamesNumberCallRankAndReason) {
  EXPECT_THAT(
      describe_failure(reduce_scatter_of(8), 3, "rank 1 died"),
      HasSubstr("rank 1 died: collective #41, reduce_scatter of 8 float32 [bucket 0], failed on "
                "rank 3; "));
}

TEST(ListRanks, JoinsNeighbours) {
  EXPECT_EQ(list_ranks(std::vector{4}), "rank 4");
  EXPECT_EQ(list_ranks(std::vector{0, 1}), "ranks 0, 1");
  EXPECT_EQ(list_ranks(std::vector{0, 2, 3, 4, 9}), "ranks 0, 2-4, 9");
}

TEST(MembersOfColor, AreOrderedByKeyAndThenByRank) {
  std::vector<CallHeader> calls(5);
  const int colors[] = {7, 3, 7, 7, -1};
  const int keys[] = {2, 0, -1, 2, 0};
  for (std::size_t r = 0; r < calls.size(); ++r) {
    calls[r].color = colors[r];
    calls[r].key = keys[r];
  }
  EXPECT_EQ(members_of_color(calls, 7), (std::vector<int>{2, 0, 3}));
  EXPECT_EQ(members_of_color(calls, 3), (std::vector<int>{1}));
  EXPECT_EQ(members_of_color(calls, 4), (std::vector<int>{}));
}

}  // namespace
}  // namespace zero
