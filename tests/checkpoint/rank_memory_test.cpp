#include "checkpoint/rank_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "libzero/base/error.h"
#include "tests/thrown.h"

namespace zero::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using zero::testing::thrown;

std::map<std::string, Blob> blobs_with(Blob blob) {
  return {{"optimizer.memory", std::move(blob)}};
}

TEST(RankMemory, ComesBackAsItWasWritten) {
  for (const RankMemory& memory : {RankMemory{0, 0}, RankMemory{1234567890123, 77},
                                   RankMemory{kMaxRankMemory - 1, kMaxRankMemory - 1}})
    EXPECT_EQ(memory_of(blobs_with(to_blob(memory)), 0), memory);
}

TEST(RankMemory, IsTwoLittleEndianNumbers) {
  const unsigned char expected[] = {2, 1, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0};
  const Blob blob = to_blob({258, 3});
  ASSERT_EQ(blob.size(), sizeof expected);
  EXPECT_EQ(std::memcmp(blob.data(), expected, sizeof expected), 0);
}

TEST(RankMemory, IsUnknownWhereTheRankDoesNotSay) {
  EXPECT_EQ(memory_of({}, 0), std::nullopt);
  EXPECT_EQ(memory_of({{"random.cpu", Blob(16)}}, 0), std::nullopt);
}

TEST(RankMemory, ThatNobodyCanHaveIsRefusedNamingRankAndBlob) {
  for (const std::size_t size : {0u, 8u, 15u, 17u, 5000u}) {
    EXPECT_THAT(thrown<FormatError>([&] { memory_of(blobs_with(Blob(size)), 3); }),
                AllOf(HasSubstr(std::to_string(size) + " bytes instead of 16"),
                      HasSubstr("blob optimizer.memory of rank 3")));
  }
  for (const std::size_t byte : {6u, 7u, 14u, 15u}) {  // too large, or negative
    Blob blob = to_blob({1, 1});
    blob[byte] = std::byte{0x81};
    EXPECT_THAT(thrown<FormatError>([&] { memory_of(blobs_with(blob), 0); }),
                HasSubstr("blob optimizer.memory of rank 0"));
  }
  EXPECT_THROW(to_blob({-1, 0}), ContractError);
  EXPECT_THROW(to_blob({0, kMaxRankMemory}), ContractError);
}

}  // namespace
}  // namespace zero::checkpoint
