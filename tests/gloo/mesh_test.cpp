// A mesh against a rank that is driven by hand, message by message.

#include "backends/gloo/mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <future>

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
      Lane& lane = lanes_.emplace_back(data_, fate_, peer, static_cast<void*>(taken_), kMessage);
      for (int round = 0; round < 2; ++round) lane.receive(kHeaderSlot, 0, kMessage);
    }
  }

  void send_header(int peer, const CallHeader& call) {
    CallHeader& copy = sent_.emplace_back(call);
    lanes_.emplace_back(data_, fate_, peer, static_cast<const void*>(&copy), sizeof copy)
        .send(kHeaderSlot, 0, sizeof copy);
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

std::string what_of(Mesh& mesh, Operation operation, const Mesh::Body& body) {
  try {
    mesh.run(mesh.describe_next(operation, "bucket 7"), {}, body);
    return "";
  } catch (const ContractError& error) {
    return std::string("ContractError: ") + error.what();
  } catch (const CommError& error) {
    return std::string("CommError: ") + error.what();
  }
}

void nothing(Transfers&, const RollCall&) {}

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
                                   HasSubstr("CommError: collective #2"),
                                   HasSubstr(": rank 2 did not come to collective #1")));
  }
}

TEST_F(MeshTest, AContractErrorInTheMiddleOfACallReachesAllRanksAtOnce) {
  const auto start = std::chrono::steady_clock::now();
  const auto runs = [&](int rank) {
    Mesh mesh(place(rank, 2, kPatience), store());
    char byte = 0;
    const std::string text =
        what_of(mesh, Operation::kBroadcast, [&](Transfers& transfers, const RollCall&) {
          if (rank == 0) throw ContractError("the epilogue refuses");
          transfers.open(0, static_cast<void*>(&byte), 1).receive(kGatherSlot, 0, 1);
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
