#include "libzero/offload/offloaded_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <stdexcept>

#include "libzero/base/error.h"
#include "tests/offload/disturbed_calls.h"
#include "tests/temporary_folder.h"
#include "tests/thrown.h"

namespace zero {
namespace {

using testing::DisturbedCalls;
using ::testing::Each;
using ::testing::HasSubstr;
using testing::thrown;

constexpr std::int64_t kElements = 5000;

class OffloadedStateTest : public ::testing::Test {
 protected:
  Offload where() { return Offload::kDisk(folder_.path()).calls(calls_).size({1024, 2, 2}); }
  std::vector<OffloadSpan> spans() const {
    return {{0, 0, 0, kElements, {false, true, true}}, {1, 0, 0, 3000}};
  }
  OffloadedState make() { return {where(), spans(), "rank-0"}; }

  /// Adds to every array of every block.
  static void walk(OffloadedState& state, float more) {
    state.begin();
    while (state.upcoming() != nullptr) {
      const OffloadedRun run = state.next();
      for (float* const array : {run.master, run.kept[0], run.kept[1], run.kept[2]}) {
        for (std::int64_t i = 0; array != nullptr && i < run.where.count; ++i) array[i] += more;
      }
      state.release();
    }
    state.finish();
  }
  static std::vector<float> all(OffloadedState& state, std::int32_t bucket, OffloadedArray array) {
    std::vector<float> values(bucket == 0 ? kElements : 3000);
    state.read(bucket, array, 0, values);
    return values;
  }

  testing::TemporaryFolder folder_;
  std::shared_ptr<DisturbedCalls> calls_ = std::make_shared<DisturbedCalls>();
};

TEST_F(OffloadedStateTest, AWalkShowsWhatIsKeptInOrderAndLeavesWhatItChanges) {
  OffloadedState state = make();
  state.begin();
  std::int64_t next[] = {0, 0};
  while (const OffloadBlock* block = state.upcoming()) {
    const OffloadedRun run = state.next();
    EXPECT_EQ(&run.where, block);
    EXPECT_EQ(run.master == nullptr, block->bucket == 0);
    EXPECT_EQ(block->begin, next[block->bucket]);
    next[block->bucket] += block->count;
    state.release();
  }
  state.finish();
  EXPECT_EQ(next[0], kElements);
  EXPECT_EQ(next[1], 3000);
  walk(state, 1);
  walk(state, 2);
  EXPECT_THAT(all(state, 0, OffloadedArray::kFirst), Each(3.0f));
  EXPECT_THAT(all(state, 1, OffloadedArray::kMaster), Each(3.0f));
  EXPECT_THAT(all(state, 1, OffloadedArray::kSecond), Each(3.0f));
}

TEST_F(OffloadedStateTest, ElementsAreWrittenAndReadAcrossBlocks) {
  OffloadedState state = make();
  std::vector<float> values(2500);
  std::iota(values.begin(), values.end(), 1.0f);
  state.write(0, OffloadedArray::kFirst, 700, values);
  std::vector<float> read(kElements);
  state.read(0, OffloadedArray::kFirst, 0, read);
  EXPECT_EQ(read[699], 0);
  EXPECT_EQ(std::vector<float>(read.begin() + 700, read.begin() + 3200), values);
  EXPECT_EQ(read[3200], 0);
  EXPECT_THAT(all(state, 0, OffloadedArray::kSecond), Each(0.0f));
  walk(state, 1);
  EXPECT_EQ(all(state, 0, OffloadedArray::kFirst)[701], 3);
  walk(state, 1);
  EXPECT_EQ(all(state, 0, OffloadedArray::kFirst)[701], 4) << "nothing old is shown";
}

TEST_F(OffloadedStateTest, WhatIsReadAheadIsNotOlderThanAWrite) {
  OffloadedState state = make();
  walk(state, 1);
  state.begin();
  state.wait_for_first();
  const std::vector<float> eight(10, 8.0f);
  state.write(0, OffloadedArray::kFirst, 3, eight);
  walk(state, 1);
  EXPECT_EQ(all(state, 0, OffloadedArray::kFirst)[3], 9);
  EXPECT_EQ(all(state, 0, OffloadedArray::kFirst)[2], 2);
}

TEST_F(OffloadedStateTest, ReadingDoesNotDisturbWhatIsOnItsWay) {
  OffloadedState state = make();
  walk(state, 1);
  state.begin();
  state.wait_for_first();
  const int before = calls_->reads;
  EXPECT_EQ(all(state, 0, OffloadedArray::kFirst)[3], 1);
  walk(state, 1);
  const int blocks = 5 + 3;
  EXPECT_EQ(calls_->reads - before, 5 /* the array */ + blocks - 2 /* that were there */);
}

TEST_F(OffloadedStateTest, AVisitorsChangesStayAndOnlyTheyAreWritten) {
  OffloadedState state = make();
  walk(state, 1);
  const int before = calls_->writes;
  std::int64_t next = 100;
  state.visit(0, OffloadedArray::kFirst, 100, 3000, [&](std::int64_t at, std::span<float> values) {
    EXPECT_EQ(at, next);
    next += static_cast<std::int64_t>(values.size());
    if (at == 100) values[1] = 50;
  });
  state.flush();
  EXPECT_EQ(next, 3000);
  EXPECT_EQ(calls_->writes - before, 1);
  walk(state, 1);
  EXPECT_EQ(all(state, 0, OffloadedArray::kFirst)[101], 51);
}

TEST_F(OffloadedStateTest, WhatAVisitorChangedBeforeItThrewIsKeptAlsoIfAWalkHadBegun) {
  OffloadedState state = make();
  state.begin();
  state.wait_for_first();
  thrown<std::runtime_error>([&] {
    state.visit(0, OffloadedArray::kFirst, 0, 10, [](std::int64_t, std::span<float> values) {
      values[4] = 7;
      throw std::runtime_error("enough");
    });
  });
  walk(state, 1);
  EXPECT_EQ(all(state, 0, OffloadedArray::kFirst)[4], 8);
}

TEST_F(OffloadedStateTest, TwoOfTheSameSpansChangePlaces) {
  OffloadedState state = make();
  walk(state, 1);
  const auto other = state.another();
  walk(*other, 5);
  state.begin();
  state.exchange(*other);
  EXPECT_THAT(all(state, 0, OffloadedArray::kFirst), Each(5.0f));
  EXPECT_THAT(all(*other, 0, OffloadedArray::kFirst), Each(1.0f));
  walk(state, 1);
  EXPECT_THAT(all(state, 1, OffloadedArray::kMaster), Each(6.0f));
}

TEST_F(OffloadedStateTest, MemoryIsAFewBlocksHoweverMuchIsKept) {
  const auto bytes = [&](std::int64_t elements) {
    const OffloadSpan span{0, 0, 0, elements};
    return OffloadedState(where(), {&span, 1}, "rank-0").memory_bytes();
  };
  const std::int64_t blocks = 2 * 3 * 4096 + 4096;
  EXPECT_LT(bytes(100'000) - blocks, 100 * 64);
  EXPECT_EQ(make().file_bytes(), (5 * 2 + 3 * 3) * 4096);
}

TEST_F(OffloadedStateTest, AWalkThatFailsSaysItAndTheNextOneBeginsAnew) {
  OffloadedState state = make();
  walk(state, 1);
  std::atomic<bool> fails = true;
  calls_->on_pread = [&](int, void*, std::size_t, off_t at) -> std::optional<ssize_t> {
    if (fails && at > 0) return DisturbedCalls::fail(EIO);
    return std::nullopt;
  };
  EXPECT_THAT(thrown<IoError>([&] { walk(state, 1); }), HasSubstr("libzero-offload-rank-0"));
  fails = false;
  state.begin();
  while (state.upcoming() != nullptr) state.next(), state.release();
  state.finish();
}

}  // namespace
}  // namespace zero
