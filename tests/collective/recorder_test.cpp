#include "libzero/collective/recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "libzero/base/error.h"
#include "libzero/collective/self.h"
#include "libzero/collective/threads.h"

namespace zero {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

/// One thread a rank, each with a recorder; returns the ranks' logs.
template <typename Body>
std::vector<std::shared_ptr<const CallLog>> record_world(int size, Body body) {
  auto comms = make_threads(size, seconds(20));
  std::vector<std::shared_ptr<const CallLog>> logs(comms.size());
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < comms.size(); ++r) {
    threads.emplace_back([&, r] {
      Recorded recorded = record_calls(comms[r]);
      logs[r] = recorded.log;
      body(*recorded.collective);
      recorded.collective->shutdown();
    });
  }
  for (auto& thread : threads) thread.join();
  return logs;
}

TEST(PayloadBytes, FollowTheDefinition) {
  CallHeader call = make_call_header(Operation::kReduceScatter, 1, "", DType::kBFloat16, 100);
  EXPECT_EQ(payload_bytes(call, 0, 4), 3 * 100 * 2);
  call = make_call_header(Operation::kAllGather, 1, "", DType::kFloat32, 100);
  EXPECT_EQ(payload_bytes(call, 1, 4), 3 * 100 * 4);
  call = make_call_header(Operation::kAllReduce, 1, "", DType::kInt64, 100);
  EXPECT_EQ(payload_bytes(call, 1, 4), 2 * 3 * 100 * 8 / 4);
  EXPECT_EQ(payload_bytes(call, 0, 1), 0);
  call = make_call_header(Operation::kBroadcast, 1, "", DType::kUInt8, 100);
  call.root = 2;
  EXPECT_EQ(payload_bytes(call, 2, 4), 300);
  EXPECT_EQ(payload_bytes(call, 0, 4), 0);
  EXPECT_EQ(payload_bytes(make_call_header(Operation::kBarrier, 1, ""), 0, 4), 0);
}

TEST(Recorder, CountsCallsElementsAndBytes) {
  const auto logs = record_world(2, [](Collective& comm) {
    const std::vector<float> in(20, 1.0f);
    std::vector<float> out(10);
    comm.reduce_scatter({in.data(), 20, DType::kFloat32}, {out.data(), 10, DType::kFloat32}, {})
        ->wait();
    comm.reduce_scatter({in.data(), 4, DType::kFloat32}, {out.data(), 2, DType::kFloat32}, {})
        ->wait();
    comm.barrier("")->wait();
  });
  for (const auto& log : logs) {
    EXPECT_EQ(log->of(Operation::kReduceScatter).calls, 2);
    EXPECT_EQ(log->of(Operation::kReduceScatter).elements, 24);
    EXPECT_EQ(log->of(Operation::kReduceScatter).bytes, 12 * 4);
    EXPECT_GT(log->of(Operation::kReduceScatter).seconds, 0.0);
    EXPECT_LT(log->of(Operation::kReduceScatter).seconds, 20.0);
    EXPECT_EQ(log->of(Operation::kBarrier).calls, 1);
    EXPECT_EQ(log->of(Operation::kAllGather).calls, 0);
    EXPECT_EQ(log->total().calls, 4);  // with shutdown
    EXPECT_EQ(log->total().bytes, 48);
  }
}

TEST(Recorder, HistoryTellsNumbersLabelsAndOutcomes) {
  const Recorded self = record_calls(make_self());
  std::int64_t word = 3;
  self.collective->all_reduce({&word, 1, DType::kInt64}, ReduceOp::kMax, "vote")->wait();
  EXPECT_THROW(self.collective->broadcast({&word, 1, DType::kInt64}, 7, "start"), ContractError);
  const WorkPtr pending = self.collective->barrier("");
  EXPECT_THAT(self.log->history(),
              ElementsAre("#1 all_reduce (max) of 1 int64 [vote] ok",
                          "#2 broadcast of 1 int64 from rank 7 [start] refused",
                          "#2 barrier ok"));  // before it is waited for: it has ended
  EXPECT_EQ(self.log->total().calls, 2);
  pending->wait();
  EXPECT_EQ(self.log->history().back(), "#2 barrier ok");
}

TEST(Recorder, KeepsTheLast64Calls) {
  const Recorded self = record_calls(make_self());
  for (int i = 1; i <= 100; ++i) self.collective->barrier(std::to_string(i))->wait();
  const auto history = self.log->history();
  ASSERT_EQ(history.size(), 64u);
  EXPECT_EQ(history.front(), "#37 barrier [37] ok");
  EXPECT_EQ(history.back(), "#100 barrier [100] ok");
}

/// The 65th call lies where the first one lay: how the first one ends is nobody's business then.
TEST(CallLog, TheEndOfAForgottenCallIsNotTheEndOfAnother) {
  CallLog log;
  CallHeader call;
  call.operation = Operation::kBarrier;
  const std::uint64_t first = log.begin("", call);
  for (std::size_t i = 0; i < CallLog::kKept; ++i) log.begin("", call);
  log.end(first, CallLog::Outcome::kFailed);
  ASSERT_EQ(log.history().size(), CallLog::kKept);
  for (const std::string& line : log.history()) EXPECT_EQ(line.find("failed"), line.npos) << line;
}

TEST(Recorder, CommErrorsEndWithTheLastCalls) {
  const Recorded self = record_calls(make_self());
  for (int i = 1; i <= 9; ++i) self.collective->barrier(std::to_string(i))->wait();
  self.collective->abort("stop");
  EXPECT_THAT(
      [&] { self.collective->barrier("tenth")->wait(); },
      ThrowsMessage<CommError>(AllOf(
          HasSubstr("stop"), HasSubstr("last calls: #5 barrier [5] ok, "),
          HasSubstr("#9 barrier [9] ok, #10 barrier [tenth] failed"), Not(HasSubstr("[4]")))));
}

TEST(Recorder, WorkThatFailsLaterTellsTheLastCallsToo) {
  auto comms = make_threads(2, milliseconds(20));
  const Recorded first = record_calls(comms[0]);
  const WorkPtr work = first.collective->barrier("lonely");
  EXPECT_THAT([&] { work->wait(); },
              ThrowsMessage<CommError>(
                  AllOf(HasSubstr("rank 1"), HasSubstr("last calls: #1 barrier [lonely] failed"))));
}

TEST(Recorder, NumbersAreTheBackendsOwnAfterARefusedCall) {
  const auto logs = record_world(2, [](Collective& comm) {
    std::int64_t words[2] = {};
    EXPECT_THROW(comm.broadcast({words, 1, DType::kInt64}, 9, ""), ContractError);
    // A mismatch is a call that was made: it has a number.
    EXPECT_THAT(
        [&] {
          comm.broadcast({words, 1 + comm.rank(), DType::kInt64}, 0, "")->wait();
        },
        ThrowsMessage<ContractError>(HasSubstr("#1 ")));
    EXPECT_THAT(
        [&] {
          comm.broadcast({words, 1 + comm.rank(), DType::kInt64}, 0, "")->wait();
        },
        ThrowsMessage<ContractError>(HasSubstr("#2 ")));
  });
  EXPECT_THAT(logs[0]->history(),
              ElementsAre(HasSubstr("#1 "), HasSubstr("#1 "), HasSubstr("#2 "), "#3 shutdown ok"));
}

TEST(Recorder, SubgroupsShareTheLogUnderTheirName) {
  const auto logs = record_world(2, [](Collective& comm) {
    const auto child = comm.split(4, 0);
    child->barrier("inside")->wait();
    child->split(0, 0)->barrier("deep")->wait();
    EXPECT_EQ(comm.split(-1, 0), nullptr);
  });
  EXPECT_THAT(logs[1]->history(),
              ElementsAre("#1 split ok", "group 4 #1 barrier [inside] ok", "group 4 #2 split ok",
                          "group 4/0 #1 barrier [deep] ok", "#2 split ok", "#3 shutdown ok"));
}

TEST(Recorder, LogCanBeReadWhileCallsRun) {
  const Recorded self = record_calls(make_self());
  std::thread reader([log = self.log] {
    std::int64_t seen = 0;
    while (seen < 200) {
      const std::int64_t calls = log->total().calls;
      EXPECT_GE(calls, seen);
      seen = calls;
      EXPECT_LE(log->history().size(), CallLog::kKept);
      std::this_thread::yield();
    }
  });
  for (int i = 0; i < 200; ++i) self.collective->barrier("")->wait();
  reader.join();
}

TEST(Recorder, RefusesNothingToRecord) {
  EXPECT_THROW(record_calls(nullptr), ContractError);
}

}  // namespace
}  // namespace zero
