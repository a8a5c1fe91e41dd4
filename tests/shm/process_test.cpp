// Ranks as processes: killed, stopped, gone.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <memory>
#include <set>
#include <vector>

#include "backends/rendezvous/store_server.h"
#include "tests/gloo/rank_process.h"

namespace zero::shm_test {
namespace {

using gloo_test::RankProcess;
using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kLong{20'000};
const std::string large = " 2097152";  // elements a rank: many times what all rows hold

class Processes {
 public:
  Processes(int size, milliseconds timeout) : server_(rendezvous::ServerOptions{}) {
    for (int rank = 0; rank < size; ++rank) {
      ranks_.push_back(std::make_unique<RankProcess>(rank, size, server_.port(), timeout));
    }
    for (auto& rank : ranks_) EXPECT_EQ(rank->answer(), "joined");
  }

  RankProcess& operator[](int rank) { return *ranks_[static_cast<std::size_t>(rank)]; }
  void tell_all(const std::string& command) {
    for (auto& rank : ranks_) rank->tell(command);
  }

 private:
  rendezvous::StoreServer server_;
  std::vector<std::unique_ptr<RankProcess>> ranks_;
};

milliseconds since(Clock::time_point start) {
  return std::chrono::duration_cast<milliseconds>(Clock::now() - start);
}

TEST(ShmProcesses, LeaveInGoodOrder) {
  Processes ranks(3, kLong);
  ranks.tell_all("reduce_scatter 100000");
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(ranks[rank].answer(), "ok");
  ranks.tell_all("shutdown");
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(ranks[rank].answer(), "ok");
    EXPECT_EQ(ranks[rank].finish(), 0);
  }
}

TEST(ShmProcesses, KilledInTheMiddleIsNamedByTheOthersWithinASecond) {
  Processes ranks(3, kLong);
  ranks[0].tell("reduce_scatter" + large);
  ranks[1].tell("stall" + large);
  ranks[2].tell("reduce_scatter" + large);
  ASSERT_EQ(ranks[1].answer(), "middle");
  const auto start = Clock::now();
  ranks[1].signal(SIGKILL);
  for (const int rank : {0, 2}) {
    EXPECT_THAT(ranks[rank].answer(),
                AllOf(HasSubstr("rank 1 died"), HasSubstr("#2"), HasSubstr("bucket 7")));
    const milliseconds elapsed = since(start);
    EXPECT_LT(elapsed, milliseconds(1000));
    RecordProperty("milliseconds_on_rank_" + std::to_string(rank), std::to_string(elapsed.count()));
    std::cout << "rank " << rank << " heard of the death after " << elapsed.count() << " ms\n";
  }
}

TEST(ShmProcesses, KilledBetweenCallsIsNamedByTheNextCall) {
  Processes ranks(3, kLong);
  ranks[2].signal(SIGKILL);
  ranks[2].finish();
  for (const int rank : {0, 1}) ranks[rank].tell("barrier");
  for (const int rank : {0, 1}) EXPECT_THAT(ranks[rank].answer(), HasSubstr("rank 2 died"));
  for (const int rank : {0, 1}) EXPECT_EQ(ranks[rank].finish(), 0) << "SIGPIPE?";
}

TEST(ShmProcesses, StoppedInTheMiddleIsNamedAtTheTimeout) {
  constexpr milliseconds kTimeout{1500};
  Processes ranks(3, kTimeout);
  const auto start = Clock::now();
  ranks[0].tell("stall" + large);
  ranks[1].tell("reduce_scatter" + large);
  ranks[2].tell("reduce_scatter" + large);
  ASSERT_EQ(ranks[0].answer(), "middle");
  const auto middle = Clock::now();
  ranks[0].signal(SIGSTOP);
  for (const int rank : {1, 2}) {
    EXPECT_THAT(ranks[rank].answer(), AllOf(HasSubstr("rank 0 fell silent"), HasSubstr("#2"),
                                            HasSubstr("bucket 7"), HasSubstr("1500 ms")));
  }
  EXPECT_GE(since(start), kTimeout);
  EXPECT_LT(since(middle), kTimeout + milliseconds(1500));
  std::cout << "the error came after " << since(middle).count() << " ms of " << kTimeout.count()
            << "\n";
  ranks[0].tell("go on");
  ranks[0].signal(SIGCONT);
  EXPECT_THAT(ranks[0].answer(), HasSubstr("rank 0 fell silent")) << "it learns why it was left";
}

TEST(ShmProcesses, StoppedBetweenCallsIsNamedAtTheTimeout) {
  constexpr milliseconds kTimeout{1000};
  Processes ranks(3, kTimeout);
  ranks.tell_all("barrier");
  for (int rank = 0; rank < 3; ++rank) ASSERT_EQ(ranks[rank].answer(), "ok");
  ranks[1].signal(SIGSTOP);
  const auto start = Clock::now();
  for (const int rank : {0, 2}) ranks[rank].tell("barrier");
  for (const int rank : {0, 2}) {
    EXPECT_THAT(ranks[rank].answer(),
                AllOf(HasSubstr("rank 1 did not come to collective #2, barrier [step]"),
                      HasSubstr("1000 ms")));
  }
  EXPECT_GE(since(start), kTimeout);
  EXPECT_LT(since(start), kTimeout + milliseconds(1500));
}

TEST(ShmProcesses, ExitWithoutShutdownIsADeath) {
  Processes ranks(3, kLong);
  for (const int rank : {0, 1}) ranks[rank].tell("barrier");
  const auto start = Clock::now();
  ranks[2].tell("vanish");
  for (const int rank : {0, 1}) EXPECT_THAT(ranks[rank].answer(), HasSubstr("rank 2 died"));
  EXPECT_LT(since(start), milliseconds(1000));
}

TEST(ShmProcesses, AbortOnOneRankReachesTheOthers) {
  Processes ranks(3, kLong);
  for (const int rank : {0, 1}) ranks[rank].tell("barrier");
  const auto start = Clock::now();
  ranks[2].tell("abort loss is NaN");
  for (const int rank : {0, 1}) {
    EXPECT_THAT(ranks[rank].answer(), HasSubstr("rank 2 aborted: loss is NaN"));
  }
  EXPECT_LT(since(start), milliseconds(1000));
}

TEST(ShmProcesses, EightRanksOnFewerCoresAddUp) {
  Processes ranks(8, kLong);
  for (const char* command : {"reduce_scatter 100001", "split", "reduce_scatter 50000"}) {
    ranks.tell_all(command);
    for (int rank = 0; rank < 8; ++rank) EXPECT_EQ(ranks[rank].answer(), "ok") << command;
  }
  ranks.tell_all("shutdown");
  for (int rank = 0; rank < 8; ++rank) EXPECT_EQ(ranks[rank].answer(), "ok");
}

TEST(ShmProcesses, ADeathIsNamedByTheRanksOfASplitInTheirNumbers) {
  Processes ranks(3, kLong);
  ranks.tell_all("split");  // in reverse order
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(ranks[rank].answer(), "ok");
  for (const int rank : {1, 2}) ranks[rank].tell("barrier");
  const auto start = Clock::now();
  ranks[0].signal(SIGKILL);
  for (const int rank : {1, 2}) EXPECT_THAT(ranks[rank].answer(), HasSubstr("rank 2 died"));
  EXPECT_LT(since(start), milliseconds(1000));
}

std::set<std::string> shared_files() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    if (entry.path().filename().string().find("zero") != std::string::npos) {
      names.insert(entry.path());
    }
  }
  return names;
}

TEST(ShmProcesses, AllKilledInTheMiddleLeaveNothingBehind) {
  const auto before = shared_files();
  Processes ranks(2, kLong);
  ranks[0].tell("stall" + large);
  ranks[1].tell("reduce_scatter" + large);
  ASSERT_EQ(ranks[0].answer(), "middle");
  for (const int rank : {0, 1}) ranks[rank].signal(SIGKILL);
  for (const int rank : {0, 1}) EXPECT_EQ(ranks[rank].finish(), -SIGKILL);
  EXPECT_EQ(shared_files(), before);
}

}  // namespace
}  // namespace zero::shm_test
