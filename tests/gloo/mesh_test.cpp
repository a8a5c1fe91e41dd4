// A mesh against a rank that is driven by hand, message by message.

#include "backends/gloo/mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <future>
#include <limits>
#include <thread>
#include <utility>

#include "backends/gloo/meeting.h"
#include "backends/gloo/slots.h"
#include "libzero/base/error.h"
#include "libzero/collective/key_value_store.h"
#include "libzero/collective/plugin_store.h"

namespace zero::gloo_backend {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr milliseconds kPatience{20'000};

class MeshTest : public ::testing::Test {
 protected:
  MeshOptions place(int rank, int size, milliseconds timeout) const {
    return {rank, size, timeout, std::make_shared<Device>("127.0.0.1")};
  }
  Store store() const { return {callbacks_.table(), "mesh/"}; }

 private:
  mutable PluginStore callbacks_{make_memory_store()};
};

/// The last rank: takes two headers of each peer, and sends its own when and to whom the test
/// wants.
class HandDriven {
 public:
  HandDriven(const MeshOptions& options, const Store& store)
      : device_(options.device),
        control_(*device_, options.rank, options.size, options.timeout),
        data_(*device_, options.rank, options.size, options.timeout) {
    meet(store, options.rank, options.size, options.timeout, control_, data_);
    for (int peer = 0; peer < options.rank; ++peer) {
      Lane& lane = lanes_.emplace_back(data_, fate_, peer, taken_, kMessage);
      for (int round = 0; round < 2; ++round) lane.receive(kHeaderSlot, 0, kMessage);
    }
  }

  void send_header(int peer, const CallHeader& call) {
    CallHeader& copy = sent_.emplace_back(call);
    lanes_.emplace_back(data_, fate_, peer, &copy, sizeof copy).send(kHeaderSlot, 0, sizeof copy);
    lanes_.back().wait_sent();
  }

 private:
  static constexpr std::size_t kMessage = sizeof(CallHeader) + RollCall::kInlineBytes;

  std::shared_ptr<Device> device_;
  Links control_;
  Links data_;
  Fate fate_;
  char taken_[kMessage];  // nobody looks at it
  std::deque<CallHeader> sent_;
  std::deque<Lane> lanes_;
};

std::string what_of(Mesh& mesh, Operation operation, Mesh::Body body) {
  try {
    mesh.run(mesh.describe_next(operation, "bucket 7"), {}, body);
    return "";
  } catch (const ContractError& error) {
    return std::string("ContractError: ") + error.what();
  } catch (const CommError& error) {
    return std::string("CommError: ") + error.what();
  }
}

/// A store whose get() fails in its own way.
class BadStore : public KeyValueStore {
 public:
  explicit BadStore(milliseconds overrun) : overrun_(overrun) {}
  void set(std::string_view, std::string_view) override {}
  std::string get(std::string_view, milliseconds timeout) override {
    ++gets_;
    if (overrun_.count() > 0) std::this_thread::sleep_for(timeout + overrun_);
    throw CommError("what the store says");
  }
  std::int64_t add(std::string_view, std::int64_t) override { return 0; }
  std::string compare_and_set(std::string_view, std::string_view, std::string_view) override {
    return "";
  }
  bool remove(std::string_view) override { return false; }
  int gets() const { return gets_; }

 private:
  const milliseconds overrun_;
  int gets_ = 0;
};

constexpr auto nothing = [](Transfers&, const RollCall&) {};

TEST_F(MeshTest, NobodyLeavesAMismatchBeforeEverybodyKnowsOfIt) {
  const auto leaves_at_once = [&](int rank) {
    Mesh mesh(place(rank, 3, kPatience), store());
    return what_of(mesh, Operation::kBarrier, nothing);
  };
  auto quick = std::async(std::launch::async, leaves_at_once, 0);
  auto waiting = std::async(std::launch::async, leaves_at_once, 1);
  HandDriven slow(place(2, 3, kPatience), store());
  const CallHeader call = make_call_header(Operation::kShutdown, 1, "", DType::kUInt8, 0);
  slow.send_header(0, call);
  EXPECT_EQ(quick.wait_for(milliseconds(300)), std::future_status::timeout);
  slow.send_header(1, call);
  for (const int peer : {0, 1}) slow.send_header(peer, call);
  for (auto* text : {&quick, &waiting}) {
    EXPECT_THAT(text->get(), AllOf(StartsWith("ContractError: collective #1 does not match"),
                                   HasSubstr("ranks 0, 1: barrier"), HasSubstr("2: shutdown")));
  }
}

TEST_F(MeshTest, WhoeverFallsSilentAfterAMismatchDoesNotHideIt) {
  const auto asks_twice = [&](int rank) {
    Mesh mesh(place(rank, 3, milliseconds(500)), store());
    const std::string first = what_of(mesh, Operation::kBarrier, nothing);
    return first + "; " + what_of(mesh, Operation::kBarrier, nothing);
  };
  auto first = std::async(std::launch::async, asks_twice, 0);
  auto second = std::async(std::launch::async, asks_twice, 1);
  HandDriven silent(place(2, 3, kPatience), store());
  const CallHeader call = make_call_header(Operation::kShutdown, 1, "", DType::kUInt8, 0);
  for (const int peer : {0, 1}) silent.send_header(peer, call);
  for (auto* text : {&first, &second}) {
    EXPECT_THAT(text->get(), AllOf(StartsWith("ContractError: collective #1 does not match"),
                                   HasSubstr("collective #2"),
                                   HasSubstr("rank 2 did not come to collective #1")));
  }
}

TEST_F(MeshTest, AStoreThatIsLostOrSilentIsBlamedItselfAndOnce) {
  for (const milliseconds overrun : {milliseconds(0), milliseconds(700)}) {
    const auto bad = std::make_shared<BadStore>(overrun);
    PluginStore callbacks(bad);
    const milliseconds timeout = overrun.count() > 0 ? milliseconds(100) : kPatience;
    try {
      Mesh(place(3, 6, timeout), Store(callbacks.table(), ""));
      ADD_FAILURE() << "it met nobody";
    } catch (const CommError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("rank 3 learnt from the key-value store"),
                                      HasSubstr("store says")));
    }
    EXPECT_EQ(bad->gets(), 1);
  }
}

TEST_F(MeshTest, WhoeverFailsToMeetOneRankTellsThoseItHasMet) {
  const milliseconds brief(600);
  const auto publish = [&](Links& control, Links& data, int rank) {
    std::string addresses;
    for (int peer = 0; peer < 3; ++peer) {
      if (peer != rank) addresses += control.address_for(peer) + data.address_for(peer);
    }
    store().set(std::to_string(rank), addresses);
    return addresses.size() / 4;
  };
  const auto publish_and_die = [&] {
    Device device("127.0.0.1");
    Links control(device, 2, 3, brief);
    Links data(device, 2, 3, brief);
    publish(control, data, 2);
  };
  publish_and_die();
  Device device("127.0.0.1");
  Links control(device, 0, 3, kPatience);
  Links data(device, 0, 3, kPatience);
  const std::size_t each = publish(control, data, 0);
  auto failing = std::async(std::launch::async, [&] { Mesh(place(1, 3, brief), store()); });
  const std::string theirs = store().get("1", 4 * each, kPatience);
  control.connect(1, theirs.substr(0, each));
  data.connect(1, theirs.substr(each, each));
  Fate fate;
  std::string letter(2048, '\0');
  Lane lane(control, fate, 1, letter.data(), letter.size());
  lane.receive(kLetterSlot, 0, letter.size());
  lane.wait_received();
  EXPECT_THAT(letter, HasSubstr("rank 1 has no connection with rank 2"));
  EXPECT_THROW(failing.get(), CommError);
}

TEST_F(MeshTest, ALaneRefusesMessagesBeyondTheMemoryThatItIsAimedAt) {
  Device device("127.0.0.1");
  Links links(device, 0, 2, kPatience);
  Fate fate;
  std::string memory(8, '\0');
  Lane lane(links, fate, 1, memory.data(), memory.size());
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
  for (const auto& [offset, bytes] :
       {std::pair<std::size_t, std::size_t>{0, 9}, {8, 1}, {9, 0}, {most, 1}, {1, most}}) {
    EXPECT_THROW(lane.send(kGatherSlot, offset, bytes), ContractError) << offset;
    EXPECT_THROW(lane.receive(kGatherSlot, offset, bytes), ContractError) << offset;
  }
  EXPECT_FALSE(lane.waits());
}

TEST_F(MeshTest, AContractErrorInTheMiddleOfACallReachesAllRanksAtOnce) {
  const auto start = std::chrono::steady_clock::now();
  const auto runs = [&](int rank) {
    Mesh mesh(place(rank, 2, kPatience), store());
    char byte = 0;
    const std::string text =
        what_of(mesh, Operation::kBroadcast, [&](Transfers& transfers, const RollCall&) {
          if (rank == 0) throw ContractError("the epilogue refuses");
          transfers.open(0, &byte, 1).receive(kGatherSlot, 0, 1);
        });
    return text + "; " + what_of(mesh, Operation::kBarrier, nothing);
  };
  auto thrower = std::async(std::launch::async, runs, 0);
  auto waiting = std::async(std::launch::async, runs, 1);
  for (auto* text : {&thrower, &waiting}) {
    EXPECT_THAT(text->get(), AllOf(StartsWith("CommError"), HasSubstr("; CommError"),
                                   HasSubstr("rank 0 gave up: the epilogue refuses")));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, kPatience / 2);
}

}  // namespace
}  // namespace zero::gloo_backend
