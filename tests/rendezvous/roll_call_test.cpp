#include "backends/rendezvous/roll_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <vector>

#include "backends/rendezvous/route.h"
#include "backends/rendezvous/served_store.h"
#include "libzero/base/error.h"

namespace zero::rendezvous {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

template <typename Expected>
std::string failure(KeyValueStore& store, int rank, int size, std::chrono::milliseconds timeout) {
  try {
    call_roll(store, rank, size, timeout);
  } catch (const Expected& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("(another type) ") + error.what();
  }
  return "(nobody is missing)";
}

TEST(RollCall, EndsWhenAllRanksAreThere) {
  const auto store = make_memory_store();
  std::vector<std::future<void>> ranks;
  for (int rank = 0; rank < 5; ++rank) {
    ranks.push_back(std::async(std::launch::async, [&, rank] { call_roll(*store, rank, 5, 20s); }));
  }
  for (auto& rank : ranks) EXPECT_NO_THROW(rank.get());
}

TEST(RollCall, EveryRankNamesThoseThatDidNotComeAsSoonAsOneGivesUp) {
  const auto store = make_memory_store();
  std::vector<std::future<std::string>> ranks;
  for (const int rank : {0, 1, 3, 4}) {
    ranks.push_back(std::async(std::launch::async, [&, rank] {
      return failure<CommError>(*store, rank, 6, rank == 0 ? 1000ms : 60000ms);
    }));
  }
  for (auto& rank : ranks) {
    ASSERT_EQ(rank.wait_for(20s), std::future_status::ready);
    EXPECT_THAT(rank.get(), HasSubstr("ranks 2 and 5 did not come within 1 s"));
  }
  EXPECT_THAT(failure<CommError>(*store, 2, 6, 20s), HasSubstr("ranks 2 and 5 did not come"));
}

TEST(RollCall, ASecondProcessWithTheSameRankIsRefused) {
  const auto store = make_memory_store();
  failure<CommError>(*store, 1, 2, 0ms);
  EXPECT_THAT(failure<ContractError>(*store, 1, 2, 0ms),
              AllOf(HasSubstr("rank 1 is already"), HasSubstr("process")));
}

TEST(RollCall, DisagreementAboutTheWorldSizeIsRefused) {
  const auto store = make_memory_store();
  failure<CommError>(*store, 0, 2, 0ms);
  EXPECT_THAT(failure<ContractError>(*store, 1, 3, 0ms),
              AllOf(HasSubstr("rank 1 has 3"), HasSubstr("another has 2")));
}

TEST(RollCall, AStoreThatDiesIsNotTakenForMissingRanks) {
  auto server = std::make_unique<StoreServer>(ServerOptions{.secret = "s"});
  const auto store = connect_store("127.0.0.1", server->port(), "s", 20s);
  auto waiting =
      std::async(std::launch::async, [&] { return failure<CommError>(*store, 0, 2, 60s); });
  connect_store("127.0.0.1", server->port(), "s", 20s)->get("arrived", 20s);
  server.reset();
  ASSERT_EQ(waiting.wait_for(20s), std::future_status::ready);
  EXPECT_THAT(waiting.get(), HasSubstr("lost the connection"));
}

TEST(RollCall, RanksAreListedAsPeopleSayThem) {
  EXPECT_EQ(list_ranks({3}), "rank 3");
  EXPECT_EQ(list_ranks({2, 5}), "ranks 2 and 5");
  EXPECT_EQ(list_ranks({1, 2, 5}), "ranks 1, 2 and 5");
  EXPECT_EQ(list_ranks({0, 1, 2, 3, 4, 5, 6, 7, 8}), "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 8");
  EXPECT_EQ(list_ranks({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}), "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 2 more");
}

struct Served {
  int port = 0;
  std::shared_ptr<KeyValueStore> store;
};

Served serve(std::chrono::milliseconds patience) {
  for (;;) {  // a port that was free a moment ago
    const int port = StoreServer({.secret = "s"}).port();
    try {
      return {port, serve_store({.port = port, .secret = "s"}, "127.0.0.1", 20s, patience)};
    } catch (const IoError&) {
    }
  }
}

TEST(ServedStore, RankZeroLeavingFirstDoesNotCutOffTheOthers) {
  Served served = serve(60s);
  auto other = connect_store("127.0.0.1", served.port, "s", 20s);
  auto leaving = std::async(std::launch::async, [&] { served.store.reset(); });
  EXPECT_EQ(leaving.wait_for(50ms), std::future_status::timeout);
  other->set("k", "v");
  EXPECT_EQ(other->get("k", 0ms), "v");
  other.reset();
  EXPECT_EQ(leaving.wait_for(20s), std::future_status::ready);
}

TEST(ServedStore, WaitsNoLongerThanItsPatience) {
  Served served = serve(50ms);
  const auto other = connect_store("127.0.0.1", served.port, "s", 20s);
  auto leaving = std::async(std::launch::async, [&] { served.store.reset(); });
  EXPECT_EQ(leaving.wait_for(20s), std::future_status::ready);
  EXPECT_THROW(other->set("k", "v"), CommError);
}

TEST(Route, OfALoopbackHostIsTheLoopback) {
  const Route route = route_to("127.0.0.1", 9);
  EXPECT_EQ(route.local, "127.0.0.1");
  EXPECT_TRUE(route.is_loopback);
  EXPECT_THROW(route_to("no such host", 9), CommError);
}

}  // namespace
}  // namespace zero::rendezvous
