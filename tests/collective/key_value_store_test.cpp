#include "libzero/collective/key_value_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <thread>
#include <vector>

#include "libzero/base/error.h"

namespace zero {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(MemoryStore, ReturnsWhatWasSetBytesAndAll) {
  const auto store = make_memory_store();
  const std::string value("a\0b", 3);
  store->set("key", value);
  EXPECT_EQ(store->get("key", seconds(1)), value);
  store->set("key", "");
  EXPECT_EQ(store->get("key", seconds(1)), "");
}

TEST(MemoryStore, GetWaitsForAnotherThreadsSet) {
  const auto store = make_memory_store();
  std::string got;
  std::thread reader([&] { got = store->get("late", seconds(20)); });
  store->set("late", "here");
  reader.join();
  EXPECT_EQ(got, "here");
}

TEST(MemoryStore, GetNamesTheKeyThatNeverCame) {
  const auto store = make_memory_store();
  EXPECT_THAT([&] { store->get("rank/3/address", milliseconds(5)); },
              ThrowsMessage<CommError>(HasSubstr("rank/3/address")));
}

TEST(MemoryStore, AddCountsFromZeroAcrossThreads) {
  const auto store = make_memory_store();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) store->add("n", 1);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(store->add("n", -1), 399);
  EXPECT_EQ(store->get("n", seconds(1)), "399");
}

TEST(MemoryStore, AddRefusesTextAndOverflow) {
  const auto store = make_memory_store();
  store->set("text", "12x");
  EXPECT_THAT([&] { store->add("text", 1); }, ThrowsMessage<ContractError>(HasSubstr("text")));
  store->add("big", std::numeric_limits<std::int64_t>::max());
  EXPECT_THROW(store->add("big", 1), ContractError);
}

TEST(MemoryStore, CompareAndSetReturnsTheValueThatStands) {
  const auto store = make_memory_store();
  EXPECT_EQ(store->compare_and_set("k", "", "first"), "first");
  EXPECT_EQ(store->compare_and_set("k", "", "second"), "first");
  EXPECT_EQ(store->compare_and_set("k", "first", "third"), "third");
  EXPECT_EQ(store->get("k", seconds(1)), "third");
}

TEST(MemoryStore, FailedCompareAndSetOfAnAbsentKeyCreatesNothing) {
  const auto store = make_memory_store();
  EXPECT_EQ(store->compare_and_set("k", "something", "new"), "");
  EXPECT_THROW(store->get("k", milliseconds(5)), CommError);
}

TEST(MemoryStore, RemoveSaysWhetherTheKeyExisted) {
  const auto store = make_memory_store();
  store->set("k", "v");
  EXPECT_TRUE(store->remove("k"));
  EXPECT_FALSE(store->remove("k"));
}

TEST(MemoryStore, RefusesKeysAndValuesBeyondTheLimits) {
  const auto store = make_memory_store();
  const std::string long_key(KeyValueStore::kMaxKeyBytes + 1, 'k');
  const std::string long_value(KeyValueStore::kMaxValueBytes + 1, 'v');
  EXPECT_THROW(store->set(long_key, ""), ContractError);
  EXPECT_THROW(store->get(long_key, seconds(1)), ContractError);
  EXPECT_THROW(store->set("k", long_value), ContractError);
  store->set(long_key.substr(1), long_value.substr(1));
  EXPECT_EQ(store->get(long_key.substr(1), seconds(1)).size(), KeyValueStore::kMaxValueBytes);
}

TEST(PrefixStore, SeparatesTheKeysOfRuns) {
  const auto store = make_memory_store();
  const auto first = with_prefix(store, "run7/0/");
  const auto second = with_prefix(store, "run7/1/");
  first->set("address", "old");
  EXPECT_THROW(second->get("address", milliseconds(5)), CommError);
  EXPECT_EQ(store->get("run7/0/address", seconds(1)), "old");
  EXPECT_EQ(second->add("n", 2), 2);
  EXPECT_EQ(first->add("n", 5), 5);
  EXPECT_EQ(second->compare_and_set("n", "2", "3"), "3");
  EXPECT_TRUE(second->remove("n"));
  EXPECT_EQ(first->get("n", seconds(1)), "5");
}

}  // namespace
}  // namespace zero
