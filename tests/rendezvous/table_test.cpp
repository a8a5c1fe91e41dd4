#include "backends/rendezvous/table.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>

#include <rapidcheck/gtest.h>

#include "libzero/base/error.h"
#include "libzero/collective/key_value_store.h"

namespace zero::rendezvous {
namespace {

TEST(Table, CountersAreDecimalTextAndStartAtZero) {
  Table table;
  EXPECT_EQ(table.add("n", 5), 5);
  EXPECT_EQ(table.add("n", -7), -2);
  EXPECT_EQ(*table.find("n"), "-2");
}

TEST(Table, AddRefusesWhatIsNoCounterAndChangesNothing) {
  Table table;
  for (const std::string text : {"", "x", "1 ", "99999999999999999999"}) {
    table.set("n", text);
    EXPECT_THROW(table.add("n", 1), ContractError) << text;
    EXPECT_EQ(*table.find("n"), text);
  }
  table.set("n", std::to_string(std::numeric_limits<std::int64_t>::max()));
  EXPECT_THROW(table.add("n", 1), ContractError);
}

TEST(Table, AbsentEqualsEmptyInCompareAndSet) {
  Table table;
  EXPECT_EQ(*table.compare_and_set("k", "a", "b"), "");
  EXPECT_EQ(table.find("k"), nullptr);
  EXPECT_EQ(*table.compare_and_set("k", "", "b"), "b");
  EXPECT_EQ(*table.compare_and_set("k", "", "c"), "b");
  EXPECT_EQ(*table.compare_and_set("k", "b", "c"), "c");
}

TEST(Table, RefusesTooLongKeysAndValues) {
  Table table;
  const std::string key(KeyValueStore::kMaxKeyBytes, 'k');
  const std::string value(KeyValueStore::kMaxValueBytes, 'v');
  table.set(key, value);
  EXPECT_THROW(table.set(key + "k", ""), ContractError);
  EXPECT_THROW(table.set(key, value + "v"), ContractError);
  EXPECT_EQ(*table.find(key), value);
}

TEST(Table, RefusesToGrowBeyondItsBoundUntilSomethingIsRemoved) {
  Table table(100);
  table.set("a", std::string(60, 'x'));
  EXPECT_THROW(table.set("b", std::string(60, 'x')), ContractError);
  table.set("a", std::string(99, 'x'));  // replacing counts the difference alone
  EXPECT_TRUE(table.remove("a"));
  EXPECT_FALSE(table.remove("a"));
  table.set("b", std::string(60, 'x'));
}

RC_GTEST_PROP(Table, BehavesLikeAMapAndCountsItsBytes, ()) {
  Table table;
  std::map<std::string, std::string> model;
  const auto steps =
      *rc::gen::container<std::vector<std::tuple<int, int, std::string>>>(rc::gen::tuple(
          rc::gen::inRange(0, 3), rc::gen::inRange(0, 4), rc::gen::string<std::string>()));
  for (const auto& [action, which, value] : steps) {
    const std::string key(static_cast<std::size_t>(which), 'k');
    if (action == 0) {
      table.set(key, value);
      model[key] = value;
    } else if (action == 1) {
      RC_ASSERT(table.remove(key) == (model.erase(key) == 1));
    } else {
      const std::string before = model.count(key) ? model[key] : "";
      if (before == value) model[key] = "new";
      RC_ASSERT(*table.compare_and_set(key, value, "new") == (before == value ? "new" : before));
    }
    std::size_t bytes = 0;
    for (const auto& [k, v] : model) {
      RC_ASSERT(*table.find(k) == v);
      bytes += k.size() + v.size();
    }
    RC_ASSERT(table.bytes() == bytes);
  }
}

}  // namespace
}  // namespace zero::rendezvous
