#include "backends/rendezvous/departures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <vector>

#include "backends/rendezvous/roll_call.h"
#include "backends/rendezvous/store_server.h"
#include "libzero/base/error.h"

namespace zero::rendezvous {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

struct Departures : ::testing::Test {
  StoreServer server{{.secret = "s"}};

  std::shared_ptr<KeyValueStore> client() {
    return with_prefix(connect_store("127.0.0.1", server.port(), "s", 20s), "run/0/");
  }
};

std::string failure_of(const std::function<void()>& function) {
  try {
    function();
  } catch (const CommError& error) {
    return error.what();
  }
  return "(no error)";
}

TEST_F(Departures, EndTheRollCallOfAllOthersLongBeforeItsTimeout) {
  std::vector<std::future<std::string>> others;
  for (int rank = 0; rank < 2; ++rank) {
    others.push_back(std::async(std::launch::async, [&, rank] {
      return failure_of([&] { call_roll(*heeding_departures(client()), rank, 3, 30s); });
    }));
  }
  auto leaver = client();
  prepare_farewell(*leaver, "rank 2, process 7 on node1");
  leaver.reset();
  for (auto& other : others) {
    ASSERT_EQ(other.wait_for(20s), std::future_status::ready);
    EXPECT_THAT(other.get(), HasSubstr("rank 2, process 7 on node1 left before all ranks had met"));
  }
}

TEST_F(Departures, EndAWaitForAKeyAfterTheRollCall) {
  auto leaver = client();
  auto calling = std::async(std::launch::async, [&] { call_roll(*leaver, 1, 2, 20s); });
  const auto store = heeding_departures(client());
  call_roll(*store, 0, 2, 20s);
  calling.get();
  auto waiting = std::async(std::launch::async,
                            [&] { return failure_of([&] { store->get("address", 30s); }); });
  EXPECT_EQ(waiting.wait_for(50ms), std::future_status::timeout);
  leaver.reset();
  ASSERT_EQ(waiting.wait_for(20s), std::future_status::ready);
  EXPECT_THAT(waiting.get(), AllOf(HasSubstr("rank 1, process "), HasSubstr(" left before all")));
}

TEST_F(Departures, AreNotTakenFromThoseThatHaveTakenTheirFarewellBack) {
  auto leaver = client();
  prepare_farewell(*leaver, "rank 2");
  take_back_farewell(*leaver);
  leaver.reset();
  auto last = client();
  prepare_farewell(*last, "rank 3");
  last.reset();
  const auto store = heeding_departures(client());
  EXPECT_THAT(failure_of([&] { store->get("k", 30s); }), HasSubstr("rank 3 left"));
}

TEST_F(Departures, AreNoneWhereASecondProcessOfARankIsRefused) {
  auto rank = client();
  auto calling = std::async(std::launch::async, [&] { call_roll(*rank, 1, 2, 20s); });
  rank->get("here/1", 20s);
  auto second = client();
  EXPECT_THROW(call_roll(*second, 1, 2, 20s), ContractError);
  second.reset();
  const auto store = heeding_departures(client());
  call_roll(*store, 0, 2, 20s);
  calling.get();
  store->set("k", "v");
  EXPECT_EQ(store->get("k", 30s), "v");
  EXPECT_EQ(first_departure(*store), "");
}

TEST_F(Departures, DoNotHideThatAKeyDoesNotComeOrThatTheStoreIsLost) {
  const auto store = heeding_departures(client());
  EXPECT_THAT(failure_of([&] { store->get("k", 450ms); }),
              AllOf(HasSubstr("within 450 ms"), HasSubstr("k")));
  auto own = std::make_unique<StoreServer>(ServerOptions{.secret = "s"});
  const auto lost = heeding_departures(connect_store("127.0.0.1", own->port(), "s", 20s));
  auto waiting =
      std::async(std::launch::async, [&] { return failure_of([&] { lost->get("k", 30s); }); });
  own.reset();
  ASSERT_EQ(waiting.wait_for(20s), std::future_status::ready);
  EXPECT_THAT(waiting.get(), HasSubstr("lost the connection"));
}

}  // namespace
}  // namespace zero::rendezvous
