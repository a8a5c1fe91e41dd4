#include "libzero/collective/testing/faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <thread>

#include "libzero/base/error.h"
#include "libzero/collective/recorder.h"
#include "libzero/collective/self.h"
#include "libzero/collective/threads.h"

namespace zero::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Fault fault(Fault::Kind kind, std::int64_t call, std::string label = "") {
  Fault fault;
  fault.kind = kind;
  fault.call = call;
  fault.label = std::move(label);
  return fault;
}

TEST(Faults, FailTheCallTheyCountTo) {
  const auto comm = with_faults(make_self(), {fault(Fault::Kind::kFail, 3)});
  comm->barrier("one")->wait();
  comm->barrier("two")->wait();
  EXPECT_THAT([&] { comm->barrier("three")->wait(); },
              ThrowsMessage<CommError>(HasSubstr("a fault was injected")));
}

TEST(Faults, FailureReachesTheOtherRanks) {
  auto comms = make_threads(2, seconds(20));
  const auto broken = with_faults(comms[1], {fault(Fault::Kind::kFail, 1)});
  std::thread other([&] {
    EXPECT_THAT([&] { comms[0]->barrier("")->wait(); },
                ThrowsMessage<CommError>(HasSubstr("a fault was injected")));
  });
  EXPECT_THROW(broken->barrier("")->wait(), CommError);
  other.join();
}

TEST(Faults, CorruptCallsWhoseLabelFits) {
  const auto comm = with_faults(make_self(), {fault(Fault::Kind::kCorrupt, 0, "norm")});
  std::int64_t words[2] = {5, 6};
  comm->all_reduce({words, 2, DType::kInt64}, ReduceOp::kSum, "vote")->wait();
  EXPECT_EQ(words[0], 5);
  comm->all_reduce({words, 2, DType::kInt64}, ReduceOp::kSum, "the norm")->wait();
  EXPECT_EQ(words[0], 5 | (std::int64_t{1} << 62));
  EXPECT_EQ(words[1], 6);
  comm->all_reduce({words, 0, DType::kInt64}, ReduceOp::kSum, "norm of nothing")->wait();
}

TEST(Faults, CorruptWhatReduceScatterAndAllGatherWrite) {
  const auto comm = with_faults(make_self(), {fault(Fault::Kind::kCorrupt, 0)});
  const float in[1] = {0.75f};
  float out[1] = {};
  const auto flipped = std::bit_cast<float>(std::bit_cast<std::uint32_t>(0.75f) ^ 0x40000000u);
  comm->reduce_scatter({in, 1, DType::kFloat32}, {out, 1, DType::kFloat32}, {})->wait();
  EXPECT_EQ(out[0], flipped);
  comm->all_gather({in, 1, DType::kFloat32}, {out, 1, DType::kFloat32}, "")->wait();
  EXPECT_EQ(out[0], flipped);
}

TEST(Faults, DelayTheCall) {
  Fault slow = fault(Fault::Kind::kDelay, 2);
  slow.delay = milliseconds(30);
  const auto comm = with_faults(make_self(), {slow});
  comm->barrier("")->wait();
  const auto start = std::chrono::steady_clock::now();
  comm->barrier("")->wait();
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(30));
}

TEST(Faults, CountOnlyCallsThatFitOperationAndLabel) {
  Fault second = fault(Fault::Kind::kFail, 2, "norm");
  second.operation = Operation::kBarrier;
  const auto comm = with_faults(make_self(), {second});
  std::int64_t word = 5;
  for (int i = 0; i < 3; ++i) {
    comm->all_reduce({&word, 1, DType::kInt64}, ReduceOp::kSum, "norm")->wait();
    comm->barrier("vote")->wait();
  }
  comm->barrier("norm")->wait();
  EXPECT_THROW(comm->barrier("norm")->wait(), CommError);
}

TEST(Faults, ReorderedCallsAreMadeAfterTheNextOne) {
  const auto [recorded, log] = record_calls(make_self());
  const auto comm = with_faults(recorded, {fault(Fault::Kind::kReorder, 1)});
  std::int64_t word = 5;
  const WorkPtr first = comm->all_reduce({&word, 1, DType::kInt64}, ReduceOp::kSum, "first");
  EXPECT_FALSE(first->test());
  const WorkPtr second = comm->barrier("second");
  first->wait();
  second->wait();
  EXPECT_THAT(log->history(), ElementsAre(HasSubstr("[second]"), HasSubstr("[first]")));
}

TEST(Faults, AReorderedCallIsMadeWhenSomebodyWaitsForIt) {
  const auto [recorded, log] = record_calls(make_self());
  const auto comm = with_faults(recorded, {fault(Fault::Kind::kReorder, 1)});
  comm->barrier("first")->wait();
  comm->barrier("second")->wait();
  EXPECT_THAT(log->history(), ElementsAre(HasSubstr("[first]"), HasSubstr("[second]")));
}

TEST(Faults, ReorderingOnOneRankIsAMismatchOnEveryRank) {
  auto comms = make_threads(2, seconds(20));
  comms[1] = with_faults(comms[1], {fault(Fault::Kind::kReorder, 1)});
  const auto two_calls = [](Collective& comm) {
    std::int64_t word = 5;
    const WorkPtr first = comm.all_reduce({&word, 1, DType::kInt64}, ReduceOp::kSum, "first");
    const WorkPtr second = comm.barrier("second");
    EXPECT_THROW(first->wait(), ContractError);
    EXPECT_THROW(second->wait(), ContractError);
  };
  std::thread other([&] { two_calls(*comms[0]); });
  two_calls(*comms[1]);
  other.join();
}

TEST(Faults, SubgroupsShareFaultsAndCount) {
  const auto comm = with_faults(make_self(), {fault(Fault::Kind::kFail, 2)});
  const auto child = comm->split(0, 0);
  comm->barrier("")->wait();
  EXPECT_THROW(child->barrier("")->wait(), CommError);
  comm->barrier("the parent lives")->wait();
  EXPECT_EQ(comm->split(-1, 0), nullptr);
}

}  // namespace
}  // namespace zero::testing
