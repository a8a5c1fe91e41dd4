#include "libzero/offload/block_ring.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <future>
#include <map>
#include <set>
#include <stdexcept>
#include <string>

#include "libzero/base/error.h"
#include "tests/thrown.h"

namespace zero {
namespace {

using testing::thrown;

constexpr std::int64_t kBytes = 4096;

/// Blocks of one number each. Calls can be watched, held up and made to fail.
class Numbers : public BlockStore {
 public:
  enum Call { kLoadBegins, kLoadEnds, kStoreBegins, kStoreEnds };

  explicit Numbers(std::size_t blocks) {
    for (std::size_t i = 0; i < blocks; ++i) values_.push_back(static_cast<int>(i) * 100);
  }

  void load(std::size_t block, std::byte* memory) override {
    happens(kLoadBegins, block);
    std::memcpy(memory, &values_[block], sizeof(int));
    happens(kLoadEnds, block);
  }
  void store(std::size_t block, const std::byte* memory) override {
    happens(kStoreBegins, block);
    std::memcpy(&values_[block], memory, sizeof(int));
    happens(kStoreEnds, block);
  }

  /// Called outside of the lock: may wait for others, or throw.
  std::function<void(Call, std::size_t block)> hook;

  void wait_for(Call call, std::size_t block) {
    std::unique_lock lock(mutex_);
    happened_.wait(lock, [&] { return count_[{call, block}] > 0; });
  }
  bool has(Call call, std::size_t block) {
    const std::lock_guard lock(mutex_);
    return count_[{call, block}] > 0;
  }
  std::size_t most_in_memory() const { return most_; }
  const std::vector<int>& values() const { return values_; }

 private:
  void happens(Call call, std::size_t block) {
    {
      const std::lock_guard lock(mutex_);
      ++count_[{call, block}];
      if (call == kLoadBegins) in_memory_.insert(block);
      if (call == kStoreEnds) in_memory_.erase(block);
      most_ = std::max(most_, in_memory_.size());
    }
    happened_.notify_all();
    if (hook) hook(call, block);
  }

  std::vector<int> values_;  // each by one thread at a time: the ring's promise
  std::mutex mutex_;
  std::condition_variable happened_;
  std::map<std::pair<Call, std::size_t>, int> count_;
  std::set<std::size_t> in_memory_;
  std::size_t most_ = 0;
};

int& number(std::byte* memory) {
  return *reinterpret_cast<int*>(memory);
}

/// Adds 1 to every block, which must hold what is expected.
void walk(BlockRing& ring, std::size_t blocks, int already = 0) {
  ring.begin();
  for (std::size_t i = 0; i < blocks; ++i) {
    int& value = number(ring.next());
    ASSERT_EQ(value, static_cast<int>(i) * 100 + already) << i;
    ++value;
    ring.release();
  }
  ring.finish();
}

TEST(BlockRing, ReadsAheadAndWritesBehindWhileABlockIsWorkedOn) {
  Numbers numbers(6);
  // The first block is not stored before the last slot's next load could have begun, and block 2
  // is not loaded before block 0 is being stored: one after the other, this would never end.
  numbers.hook = [&](Numbers::Call call, std::size_t block) {
    if (call == Numbers::kStoreBegins && block == 0) numbers.wait_for(Numbers::kLoadEnds, 3);
    if (call == Numbers::kLoadBegins && block == 3) numbers.wait_for(Numbers::kStoreBegins, 0);
  };
  BlockRing ring(numbers, 6, kBytes, {.slots = 4, .threads = 3});
  ring.begin();
  ++number(ring.next());
  ring.release();
  ++number(ring.next());  // while 0 goes out and 3 comes in
  numbers.wait_for(Numbers::kStoreEnds, 0);
  ring.release();
  for (int i = 2; i < 6; ++i) {
    ++number(ring.next());
    ring.release();
  }
  ring.finish();
  EXPECT_EQ(numbers.values(), (std::vector<int>{1, 101, 201, 301, 401, 501}));
}

TEST(BlockRing, BlocksComeInOrderWhateverTheOrderOfTheLoads) {
  Numbers numbers(3);
  numbers.hook = [&](Numbers::Call call, std::size_t block) {
    if (call == Numbers::kLoadBegins && block < 2) numbers.wait_for(Numbers::kLoadEnds, block + 1);
  };
  BlockRing ring(numbers, 3, kBytes, {.slots = 3, .threads = 3});
  walk(ring, 3);
}

TEST(BlockRing, StoresMayEndInAnyOrder) {
  Numbers numbers(3);
  numbers.hook = [&](Numbers::Call call, std::size_t block) {
    if (call == Numbers::kStoreBegins && block < 2)
      numbers.wait_for(Numbers::kStoreEnds, block + 1);
  };
  BlockRing ring(numbers, 3, kBytes, {.slots = 3, .threads = 3});
  walk(ring, 3);
}

TEST(BlockRing, ASlotIsFilledAgainOnlyWhenItsBlockIsStored) {
  Numbers numbers(4);
  std::atomic<bool> early = false;
  numbers.hook = [&](Numbers::Call call, std::size_t block) {
    if (call == Numbers::kLoadBegins && block >= 2 && !numbers.has(Numbers::kStoreEnds, block - 2))
      early = true;
  };
  BlockRing ring(numbers, 4, kBytes, {.slots = 2, .threads = 4});
  walk(ring, 4);
  walk(ring, 4, 1);
  EXPECT_FALSE(early);
  EXPECT_LE(numbers.most_in_memory(), 2u);
  EXPECT_EQ(ring.memory_bytes(), 2 * kBytes);
}

TEST(BlockRing, ALoadThatFailsComesOutOfNextAndTheWalkCanBeginAgain) {
  Numbers numbers(4);
  std::atomic<bool> fails = true;
  numbers.hook = [&](Numbers::Call call, std::size_t block) {
    if (fails && call == Numbers::kLoadBegins && block == 2) throw std::runtime_error("no block 2");
  };
  BlockRing ring(numbers, 4, kBytes, {.slots = 1, .threads = 2});
  ring.begin();
  ring.next(), ring.release();
  ring.next(), ring.release();
  EXPECT_EQ(thrown<std::runtime_error>([&] { ring.next(); }), "no block 2");
  fails = false;
  walk(ring, 4);
}

TEST(BlockRing, WhatDoesNotComeAtFirstIsKnownBeforeAnythingIsStepped) {
  Numbers numbers(4);
  std::atomic<bool> fails = true;
  numbers.hook = [&](Numbers::Call call, std::size_t block) {
    if (fails && call == Numbers::kLoadBegins && block == 1) throw std::runtime_error("no block 1");
  };
  BlockRing ring(numbers, 4, kBytes, {.slots = 2, .threads = 2});
  ring.begin();
  EXPECT_EQ(thrown<std::runtime_error>([&] { ring.wait_for_first(); }), "no block 1");
  fails = false;
  ring.begin();
  ring.wait_for_first();
  EXPECT_TRUE(numbers.has(Numbers::kLoadEnds, 0));
  EXPECT_TRUE(numbers.has(Numbers::kLoadEnds, 1));
  EXPECT_FALSE(numbers.has(Numbers::kLoadBegins, 2));
  walk(ring, 4);
}

TEST(BlockRing, AStoreThatFailsComesOutOfTheEndAtLast) {
  Numbers numbers(2);
  numbers.hook = [&](Numbers::Call call, std::size_t block) {
    if (call == Numbers::kStoreBegins && block == 1) throw std::runtime_error("disk full");
  };
  BlockRing ring(numbers, 2, kBytes, {.slots = 2, .threads = 2});
  EXPECT_EQ(thrown<std::runtime_error>([&] { walk(ring, 2); }), "disk full");
}

TEST(BlockRing, AfterAnErrorNothingMoreIsStored) {
  Numbers numbers(3);
  std::promise<void> released;
  numbers.hook = [&](Numbers::Call call, std::size_t block) {
    if (call != Numbers::kStoreBegins || block != 0) return;
    released.get_future().wait();
    throw std::runtime_error("gone");
  };
  BlockRing ring(numbers, 3, kBytes, {.slots = 3, .threads = 1});
  ring.begin();
  for (int i = 0; i < 3; ++i) ring.next(), ring.release();
  released.set_value();
  EXPECT_EQ(thrown<std::runtime_error>([&] { ring.finish(); }), "gone");
  EXPECT_EQ(numbers.values(), (std::vector<int>{0, 100, 200}));
  EXPECT_FALSE(numbers.has(Numbers::kStoreBegins, 2));
}

TEST(BlockRing, CancelWaitsForWhatRunsAndChangesNothing) {
  Numbers numbers(5);
  BlockRing ring(numbers, 5, kBytes, {.slots = 2, .threads = 2});
  for (int round = 0; round < 50; ++round) {
    ring.begin();
    ring.cancel();
  }
  ring.begin();
  number(ring.next()) = -1;  // not released
  ring.cancel();
  walk(ring, 5);
}

TEST(BlockRing, ANewOneCanGoAtOnceAndInTheMiddle) {
  Numbers numbers(8);
  for (int round = 0; round < 50; ++round) {
    BlockRing ring(numbers, 8, kBytes, {.slots = 3, .threads = 2});
    if (round % 3 == 1) ring.begin();
    if (round % 3 == 2) ring.begin(), ring.next(), ring.release();
  }
}

TEST(BlockRing, NoBlocksAreNoWalk) {
  Numbers numbers(0);
  BlockRing ring(numbers, 0, 0, {.slots = 3, .threads = 2});
  ring.begin();
  ring.wait_for_first();
  ring.finish();
  ring.begin();
  ring.finish();
  EXPECT_EQ(ring.memory_bytes(), 0);
}

TEST(BlockRing, BreakingTheRulesIsRefused) {
  Numbers numbers(1);
  BlockRing ring(numbers, 1, kBytes, {.slots = 1, .threads = 1});
  thrown<ContractError>([&] { ring.next(); });
  thrown<ContractError>([&] { ring.finish(); });
  ring.begin();
  thrown<ContractError>([&] { ring.finish(); });
  ring.next(), ring.release();
  thrown<ContractError>([&] { ring.next(); });
  ring.finish();
  thrown<ContractError>([&] { BlockRing(numbers, 1, kBytes, {.slots = 0, .threads = 1}); });
}

RC_GTEST_PROP(BlockRing, AnyRingStepsEveryBlockOnceInEveryWalk, ()) {
  const auto blocks = static_cast<std::size_t>(*rc::gen::inRange(1, 20));
  const RingSize size{static_cast<std::size_t>(*rc::gen::inRange(1, 6)),
                      static_cast<std::size_t>(*rc::gen::inRange(1, 5))};
  Numbers numbers(blocks);
  BlockRing ring(numbers, blocks, kBytes, size);
  for (int round = 0; round < 3; ++round) walk(ring, blocks, round);
  RC_ASSERT(numbers.most_in_memory() <= size.slots);
}

}  // namespace
}  // namespace zero
