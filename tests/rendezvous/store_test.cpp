#include "backends/rendezvous/store_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>

#include <atomic>
#include <barrier>
#include <filesystem>
#include <future>
#include <thread>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

#include "libzero/base/error.h"
#include "tests/rendezvous/raw_peer.h"
#include "tests/thrown.h"

namespace zero::rendezvous {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using zero::testing::thrown;

struct Store : ::testing::Test {
  StoreServer server{{.secret = "open sesame"}};

  std::shared_ptr<KeyValueStore> client() {
    return connect_store("127.0.0.1", server.port(), "open sesame", 20s);
  }
};

TEST_F(Store, KeepsWhatWasSetForOtherClients) {
  const auto a = client();
  const auto b = client();
  a->set("k", "v");
  EXPECT_EQ(b->get("k", 0ms), "v");
  EXPECT_TRUE(b->remove("k"));
  EXPECT_FALSE(a->remove("k"));
  EXPECT_THROW(a->get("k", 0ms), CommError);
}

TEST_F(Store, SetsWhatAClientLeavesBehindWhenItsConnectionEnds) {
  const auto heir = client();
  auto leaver = client();
  leaver->leave_behind("first", "a");
  with_prefix(leaver, "run/")->leave_behind("last", "b");  // in its place
  EXPECT_THROW(heir->get("run/last", 0ms), CommError);
  auto waiting = std::async(std::launch::async, [&] { return heir->get("run/last", 20s); });
  leaver.reset();
  EXPECT_EQ(waiting.get(), "b");
  EXPECT_THROW(heir->get("first", 0ms), CommError);
}

TEST_F(Store, SetsNothingThatWasTakenBackOrIsThereAlready) {
  const auto heir = client();
  heir->set("taken", "before");
  auto silent = client();
  silent->leave_behind("k", "v");
  silent->leave_behind("", "");
  auto late = client();
  late->leave_behind("taken", "after");
  silent.reset();
  late.reset();
  auto last = client();  // the server has seen the others go when it sees this one go
  last->leave_behind("end", "");
  last.reset();
  EXPECT_EQ(heir->get("end", 20s), "");
  EXPECT_EQ(heir->get("taken", 0ms), "before");
  EXPECT_THROW(heir->get("k", 0ms), CommError);
}

TEST_F(Store, TakesKeysWithAnyByteAndValuesOfExactlyTheMaximum) {
  const auto a = client();
  const std::string key("nul\0and\nnewline", 15);
  const std::string value(KeyValueStore::kMaxValueBytes, '\xff');
  const std::string long_key(KeyValueStore::kMaxKeyBytes, 'k');
  a->set(key, value);
  EXPECT_EQ(a->get(key, 0ms), value);
  EXPECT_THROW(a->get("nul", 0ms), CommError);
  EXPECT_EQ(a->compare_and_set(key, value, std::string(KeyValueStore::kMaxValueBytes, 'x')),
            std::string(KeyValueStore::kMaxValueBytes, 'x'));
  a->set(long_key, "");
  EXPECT_EQ(a->get(long_key, 0ms), "");
}

TEST_F(Store, RefusesLongerOnesAndStaysUsable) {
  const auto a = client();
  EXPECT_THAT(thrown<ContractError>([&] { a->set("weights", std::string((1 << 20) + 1, 'x')); }),
              AllOf(HasSubstr("weights"), HasSubstr("1048577")));
  EXPECT_THROW(a->get(std::string(1025, 'k'), 0ms), ContractError);
  EXPECT_THROW(a->compare_and_set("k", std::string((1 << 20) + 1, 'x'), ""), ContractError);
  a->set("word", "x");
  EXPECT_THAT(thrown<ContractError>([&] { a->add("word", 1); }), HasSubstr("'word'"));
  EXPECT_EQ(a->add("n", 3), 3);
}

TEST_F(Store, GetWaitsForTheKeyWithoutBlockingOtherCallsOfTheSameClient) {
  const auto a = client();
  auto waiting = std::async(std::launch::async, [&] { return a->get("later", 20s); });
  EXPECT_EQ(a->add("n", 1), 1);
  a->set("later", "now");
  EXPECT_EQ(waiting.get(), "now");
}

TEST_F(Store, AddAndCompareAndSetWakeWaitersToo) {
  const auto a = client();
  auto counter = std::async(std::launch::async, [&] { return a->get("counter", 20s); });
  auto word = std::async(std::launch::async, [&] { return a->get("word", 20s); });
  a->add("counter", 7);
  a->compare_and_set("word", "", "here");
  EXPECT_EQ(counter.get(), "7");
  EXPECT_EQ(word.get(), "here");
}

TEST_F(Store, AGetThatNobodyAnswersNamesTheKeyAndTheStore) {
  const auto a = client();
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(thrown<CommError>([&] { a->get("rank/3", 50ms); }),
              AllOf(HasSubstr("'rank/3'"), HasSubstr("50 ms"),
                    HasSubstr("127.0.0.1:" + std::to_string(server.port()))));
  EXPECT_GE(std::chrono::steady_clock::now() - start, 50ms);
  a->set("rank/3",
         "x");  // the client is still usable, and the late value reaches nobody else's call
  EXPECT_EQ(a->get("rank/3", 0ms), "x");
}

TEST_F(Store, CountsExactlyUnderManyThreadsAndClients) {
  constexpr int kClients = 4;
  constexpr int kThreads = 4;
  constexpr int kRounds = 50;
  std::vector<std::jthread> threads;
  std::atomic<int> won{0};
  for (int c = 0; c < kClients; ++c) {
    const auto store = client();
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, store, name = std::to_string(c * kThreads + t)] {
        for (int i = 0; i < kRounds; ++i) {
          store->add("sum", 1);
          if (store->compare_and_set("race/" + std::to_string(i), "", name) == name) ++won;
        }
      });
    }
  }
  threads.clear();
  EXPECT_EQ(client()->add("sum", 0), kClients * kThreads * kRounds);
  EXPECT_EQ(won, kRounds);
}

TEST_F(Store, TwoHundredClientsComeAtOnce) {
  constexpr int kClients = 200;
  std::barrier all(kClients);
  std::vector<std::jthread> threads;
  std::atomic<int> failures{0};
  for (int i = 0; i < kClients; ++i) {
    threads.emplace_back([&, i] {
      all.arrive_and_wait();
      try {
        const auto store = client();
        store->set(std::to_string(i), "here");
        if (store->add("arrived", 1) == kClients) store->set("go", "");
        store->get("go", 20s);
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
        ++failures;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(failures, 0);
  EXPECT_TRUE(server.wait_until_unused(20s));
}

TEST_F(Store, WrongSecretIsSaidAtOnce) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(thrown<CommError>([&] { connect_store("127.0.0.1", server.port(), "guess", 20s); }),
              AllOf(HasSubstr("wrong secret"), HasSubstr("127.0.0.1:"), HasSubstr("ZERO_SECRET")));
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
}

TEST_F(Store, APortInUseIsAnIoErrorWithAddressAndPort) {
  EXPECT_THAT(thrown<IoError>([&] { StoreServer second({.port = server.port()}); }),
              AllOf(HasSubstr("127.0.0.1:" + std::to_string(server.port())), HasSubstr("in use"),
                    HasSubstr("choose another port")));
  EXPECT_THROW(StoreServer({.port = 65536}), ContractError);
  EXPECT_THROW(StoreServer({.host = "203.0.113.1"}), IoError);
}

TEST(StoreClient, AServerThatIsNeverThereIsNamedWithTheLastReason) {
  int port = 0;
  { port = StoreServer({}).port(); }
  EXPECT_THAT(thrown<CommError>([&] { connect_store("127.0.0.1", port, "s", 200ms); }),
              AllOf(HasSubstr("127.0.0.1:" + std::to_string(port)), HasSubstr("200 ms"),
                    HasSubstr("refused")));
}

TEST(StoreClient, AHostThatCannotBeResolvedIsSaid) {
  EXPECT_THAT(thrown<CommError>([] { connect_store("no such host", 1, "s", 50ms); }),
              HasSubstr("cannot be resolved"));
}

TEST(StoreClient, WaitsForAServerThatComesLater) {
  int port = 0;
  { port = StoreServer({}).port(); }
  auto client =
      std::async(std::launch::async, [&] { return connect_store("127.0.0.1", port, "s", 20s); });
  EXPECT_EQ(client.wait_for(50ms), std::future_status::timeout);
  StoreServer server({.port = port, .secret = "s"});
  client.get()->set("k", "v");
}

TEST(StoreClient, ASilentListenerIsNotTakenForAStore) {
  boost::asio::io_context io;
  boost::asio::ip::tcp::acceptor silent(io, {boost::asio::ip::address_v4::loopback(), 0});
  EXPECT_THAT(thrown<CommError>(
                  [&] { connect_store("127.0.0.1", silent.local_endpoint().port(), "s", 200ms); }),
              HasSubstr("did not greet as a libzero store"));
}

TEST(StoreClient, AServerThatKnowsTheSecretOnlyByHearsayIsNotTrusted) {
  // It lets everybody in, but cannot prove itself.
  boost::asio::io_context io;
  boost::asio::ip::tcp::acceptor acceptor(io, {boost::asio::ip::address_v4::loopback(), 0});
  std::jthread impostor([&] {
    boost::asio::ip::tcp::socket socket = acceptor.accept();
    const auto frame = [&](wire::Kind kind, const std::string& payload) {
      const auto header = wire::encode({kind, 0, static_cast<std::uint32_t>(payload.size())});
      boost::asio::write(socket,
                         boost::asio::buffer(std::string(header.begin(), header.end()) + payload));
    };
    frame(wire::Kind::kChallenge, std::string(16, 'n'));
    std::string proof(16 + 48, '\0');
    boost::asio::read(socket, boost::asio::buffer(proof));
    frame(wire::Kind::kWelcome, proof.substr(32));
  });
  EXPECT_THAT(thrown<CommError>(
                  [&] { connect_store("127.0.0.1", acceptor.local_endpoint().port(), "s", 20s); }),
              HasSubstr("does not know the secret"));
}

TEST(StoreClient, AServerDestroyedWhileAGetWaitsIsAnErrorNotAHang) {
  auto server = std::make_unique<StoreServer>(ServerOptions{.secret = "s"});
  const auto store = connect_store("127.0.0.1", server->port(), "s", 20s);
  auto waiting = std::async(std::launch::async,
                            [&] { return thrown<CommError>([&] { store->get("never", 60s); }); });
  store->set("something", "");
  server.reset();
  ASSERT_EQ(waiting.wait_for(10s), std::future_status::ready);
  EXPECT_THAT(waiting.get(), AllOf(HasSubstr("lost the connection"), HasSubstr("'never'")));
  EXPECT_THROW(store->set("k", "v"), CommError);
}

TEST_F(Store, NoSocketSurvivesExec) {
  const auto a = client();
  a->set("k", "v");
  int sockets = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const std::string target = std::filesystem::read_symlink(entry.path(), error);
    if (target.rfind("socket:", 0) != 0) continue;
    ++sockets;
    EXPECT_EQ(::fcntl(std::stoi(entry.path().filename()), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  }
  EXPECT_GE(sockets, 3);  // listening, the server's end, the client's end
}

TEST(StoreServerTest, KnowsWhenTheLastClientHasLeft) {
  StoreServer server({.secret = "s"});
  EXPECT_TRUE(server.wait_until_unused(0ms));
  auto store = connect_store("127.0.0.1", server.port(), "s", 20s);
  EXPECT_FALSE(server.wait_until_unused(20ms));
  store.reset();
  EXPECT_TRUE(server.wait_until_unused(20s));
}

}  // namespace
}  // namespace zero::rendezvous
