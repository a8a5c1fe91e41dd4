// Who is dead, who is silent.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <future>

#include "backends/shm/guard.h"
#include "backends/shm/waiter.h"

extern char** environ;

namespace zero::shm_test {
namespace {

using shm::Board;
using shm::Guard;
using shm::Process;
using shm::Progress;
using ::testing::ElementsAre;

/// A process that sleeps until it is killed.
class Sleeper {
 public:
  Sleeper() {
    char program[] = "sleep";
    char forever[] = "1000";
    char* arguments[] = {program, forever, nullptr};
    EXPECT_EQ(posix_spawnp(&pid_, program, nullptr, nullptr, arguments, environ), 0);
  }
  ~Sleeper() { end(); }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

  Process process() const { return shm::find_process(pid_).value(); }
  void end() {
    if (pid_ < 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
};

TEST(ShmGuard, TellsOfADeathAtOnceAndOfAnEarlierOneToo) {
  Sleeper first;
  Sleeper second;
  Guard guard({shm::this_process(), first.process(), second.process()});
  std::promise<int> heard;
  const auto watcher = guard.watch([&](int process) { heard.set_value(process); });
  second.end();
  auto death = heard.get_future();
  ASSERT_EQ(death.wait_for(std::chrono::seconds(10)), std::future_status::ready);
  EXPECT_EQ(death.get(), 2);
  guard.forget(watcher);
  std::vector<int> earlier;
  guard.forget(guard.watch([&](int process) { earlier.push_back(process); }));
  EXPECT_THAT(earlier, ElementsAre(2));
}

TEST(ShmGuard, ANumberThatWentToAnotherProcessMeansADeath) {
  Sleeper sleeper;
  Process former = sleeper.process();
  former.start_time -= 1;
  EXPECT_EQ(shm::watch_process(former), std::nullopt);
  std::vector<int> dead;
  Guard guard({shm::this_process(), former});
  guard.watch([&](int process) { dead.push_back(process); });
  EXPECT_THAT(dead, ElementsAre(1));
}

TEST(ShmGuard, EndsWhileItsWardsLive) {
  Sleeper sleeper;
  const Process process = sleeper.process();
  const Guard guard({shm::this_process(), process});
}

/// Four ranks' board, as rank 0 sees it.
struct FourRanks {
  FourRanks()
      : geometry(shm::geometry_for(4)),
        segment(std::make_shared<shm::Segment>(shm::Segment::create(geometry.total_bytes()))),
        board(segment, geometry, 0) {}

  void waits(int rank, int awaited, Progress kind, std::uint64_t value) {
    shm::Seat& seat = board.seat(rank);
    seat.waiting_kind = static_cast<std::uint32_t>(kind);
    seat.waiting_value = value;
    seat.waiting_for = static_cast<std::uint32_t>(awaited) + 1;
  }

  const shm::Geometry geometry;
  const std::shared_ptr<shm::Segment> segment;
  const Board board;
};

TEST(ShmSilence, TheEndOfAChainOfWaitingRanksIsToBlame) {
  FourRanks ranks;
  ranks.waits(1, 2, Progress::kPublished, 5);
  ranks.waits(2, 3, Progress::kConsumed, 1);
  EXPECT_THAT(find_silent(ranks.board, {1}), ElementsAre(3));
  EXPECT_THAT(find_silent(ranks.board, {1, 2, 3}), ElementsAre(3));
}

TEST(ShmSilence, ARankThatSaysItWaitsButHasNoReasonToIsToBlame) {
  FourRanks ranks;
  ranks.waits(1, 2, Progress::kPublished, 5);
  ranks.board.seat(2).progress[static_cast<std::size_t>(Progress::kPublished)].value = 5;
  EXPECT_THAT(find_silent(ranks.board, {1}), ElementsAre(1));
}

TEST(ShmSilence, WhereAllWaitForEachOtherTheSuspectsStand) {
  FourRanks ranks;
  ranks.waits(1, 2, Progress::kArrived, 5);
  ranks.waits(2, 1, Progress::kArrived, 5);
  EXPECT_THAT(find_silent(ranks.board, {2, 1}), ElementsAre(2, 1));
}

TEST(ShmSilence, WordsThatMakeNoSenseAreNotFollowed) {
  FourRanks ranks;
  ranks.board.seat(1).waiting_for = 77;
  ranks.waits(2, 3, Progress::kArrived, 5);
  ranks.board.seat(2).waiting_kind = 9;
  EXPECT_THAT(find_silent(ranks.board, {1, 2}), ElementsAre(1, 2));
}

}  // namespace
}  // namespace zero::shm_test
