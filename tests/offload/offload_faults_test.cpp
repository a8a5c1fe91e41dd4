/// What a disk can do to a training.

#include <mutex>

#include "tests/offload/offload_support.h"

namespace zero::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Rank 0 of two, which owns most, has a disk of its own.
struct Disks {
  TemporaryFolder folder;
  std::shared_ptr<DisturbedCalls> sound = std::make_shared<DisturbedCalls>();
  std::shared_ptr<DisturbedCalls> bad = std::make_shared<DisturbedCalls>();

  Options options(int stage, int rank) const {
    return tiny_options(stage).offload(in_small_blocks(folder).calls(rank == 0 ? bad : sound));
  }
};

DisturbedCalls::Transfer failing_when(std::function<bool(off_t at)> condition, int error = EIO) {
  return [condition = std::move(condition), error](int, void*, std::size_t,
                                                   off_t at) -> std::optional<ssize_t> {
    if (condition(at)) return DisturbedCalls::fail(error);
    return std::nullopt;
  };
}

class OffloadFaultsTest : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(EveryStage, OffloadFaultsTest, ::testing::Values(0, 1, 2),
                         [](const auto& test) { return "Stage" + std::to_string(test.param); });

TEST_P(OffloadFaultsTest, ARankWithoutRoomStopsAllAndTheCommunicatorCanBeUsedAgain) {
  Disks disks;
  std::atomic<bool> full = true;
  disks.bad->on_allocate = [&] { return full ? ENOSPC : 0; };
  const Snapshot expected = without_accident(1);
  on_every_rank(2, [&](const Comm& comm) {
    EXPECT_THAT(thrown<IoError>([&] { Trainee(comm, disks.options(GetParam(), comm->rank())); }),
                AllOf(HasSubstr("rank 0: "), HasSubstr("no room"), HasSubstr("rank-0")));
    comm->barrier("both have thrown")->wait();
    full = false;
    Trainee trainee(comm, disks.options(GetParam(), comm->rank()));
    trainee.window(0);
    expect_same(expected, snapshot(trainee.model));
    trainee.optimizer->shutdown();
  });
}

/// The first blocks are there before anything changes.
TEST_P(OffloadFaultsTest, AReadThatFailsBeforeTheUpdateLeavesNoTrace) {
  Disks disks;
  std::atomic<bool> broken = false;
  disks.bad->on_pread = failing_when([&](off_t) { return broken.load(); });
  const Snapshot expected = without_accident(3);
  on_every_rank(2, [&](const Comm& comm) {
    Trainee trainee(comm, disks.options(GetParam(), comm->rank()));
    trainee.window(0);
    const Snapshot before = snapshot(trainee.model);
    broken = true;
    EXPECT_THAT(thrown<IoError>([&] { trainee.window(7); }),
                AllOf(HasSubstr("rank 0: "), HasSubstr("libzero-offload-rank-0"),
                      HasSubstr("Input/output error")));
    expect_same(before, snapshot(trainee.model));
    comm->barrier("both have thrown")->wait();
    broken = false;
    trainee.window(1);
    trainee.window(2);
    EXPECT_EQ(trainee.optimizer->steps_applied(), 3);
    expect_same(expected, snapshot(trainee.model));
    trainee.optimizer->shutdown();
  });
}

/// Fails after some blocks of the update: parameters cannot be taken back.
void expect_death(int stage, Disks& disks, std::atomic<bool>& broken, const std::string& why) {
  on_every_rank(2, [&](const Comm& comm) {
    const auto store = checkpoint::make_memory_store();
    Trainee trainee(comm, disks.options(stage, comm->rank()));
    trainee.window(0);
    comm->barrier("both have stepped")->wait();
    broken = true;
    EXPECT_THAT(thrown<IoError>([&] { trainee.window(1); }),
                AllOf(HasSubstr("rank 0: "), HasSubstr("libzero-offload-rank-0"), HasSubstr(why),
                      HasSubstr("two different steps")));
    EXPECT_EQ(trainee.optimizer->steps_applied(), 1);
    comm->barrier("both have thrown")->wait();
    broken = false;
    const std::string refusal = thrown<IoError>([&] { trainee.window(2); });
    EXPECT_THAT(refusal, AllOf(HasSubstr("refuses to go on"), HasSubstr("libzero-offload-rank-0")));
    EXPECT_EQ(thrown<IoError>([&] { trainee.optimizer->step(); }), refusal);
    EXPECT_EQ(thrown<IoError>([&] { trainee.optimizer->save(*store); }), refusal);
    EXPECT_EQ(thrown<IoError>([&] { trainee.optimizer->gather("large", StateKind::kMaster); }),
              refusal);
    EXPECT_TRUE(store->list().steps.empty());
    trainee.optimizer->shutdown();
  });
}

TEST_P(OffloadFaultsTest, AReadThatFailsInTheMiddleKillsTheOptimizerOnEveryRank) {
  Disks disks;
  std::atomic<bool> broken = false;
  disks.bad->on_pread = failing_when([&](off_t at) { return broken && at >= 4 * 8192; });
  expect_death(GetParam(), disks, broken, "reading");
}

TEST_P(OffloadFaultsTest, AWriteThatFailsKillsTheOptimizerOnEveryRank) {
  Disks disks;
  std::atomic<bool> broken = false;
  disks.bad->on_pwrite = failing_when([&](off_t) { return broken.load(); }, ENOSPC);
  expect_death(GetParam(), disks, broken, "No space left");
}

TEST_P(OffloadFaultsTest, AChangeOnTheDiskIsFoundOnEveryRank) {
  Disks disks;
  std::atomic<bool> broken = false;
  disks.bad->after_pread = [&](void* memory, ssize_t, off_t at) {
    if (broken && at >= 4 * 8192) static_cast<std::byte*>(memory)[8] ^= std::byte{1};
  };
  expect_death(GetParam(), disks, broken, "not what was written");
}

TEST_P(OffloadFaultsTest, AFileThatWasShortenedIsFoundOnEveryRank) {
  Disks disks;
  std::atomic<bool> broken = false;
  disks.bad->on_pread = [&](int, void*, std::size_t, off_t at) -> std::optional<ssize_t> {
    if (broken && at >= 4 * 8192) return 0;
    return std::nullopt;
  };
  expect_death(GetParam(), disks, broken, "ends too early");
}

TEST_P(OffloadFaultsTest, AFolderThatIsRemovedDoesNoHarm) {
  Disks disks;
  const Snapshot expected = without_accident(3);
  on_every_rank(2, [&](const Comm& comm) {
    Trainee trainee(comm, disks.options(GetParam(), comm->rank()));
    trainee.window(0);
    comm->barrier("both have files")->wait();
    EXPECT_TRUE(!std::filesystem::exists(disks.folder.path()) ||
                std::filesystem::is_empty(disks.folder.path()));
    std::error_code ignored;
    std::filesystem::remove_all(disks.folder.path(), ignored);
    trainee.window(1);
    trainee.window(2);
    expect_same(expected, snapshot(trainee.model));
    trainee.optimizer->shutdown();
  });
}

TEST_P(OffloadFaultsTest, WithoutODirectTheBitsAreTheSameAndTheLogSaysIt) {
  Disks disks;
  disks.bad->on_direct = [] { return EINVAL; };
  const Snapshot expected = without_accident(2);
  on_every_rank(2, [&](const Comm& comm) {
    std::string log;
    Options options = disks.options(GetParam(), comm->rank());
    options.log([&](LogLevel level, std::string_view line) {
      if (level == LogLevel::kWarning) log += line;
    });
    Trainee trainee(comm, options);
    if (comm->rank() == 0) EXPECT_THAT(log, HasSubstr("no O_DIRECT"));
    trainee.window(0);
    trainee.window(1);
    expect_same(expected, snapshot(trainee.model));
    trainee.optimizer->shutdown();
  });
}

TEST_P(OffloadFaultsTest, StateThatCannotBeGatheredIsAnErrorOnEveryRankAndNothingMore) {
  Disks disks;
  std::atomic<bool> broken = false;
  disks.bad->on_pread = failing_when([&](off_t) { return broken.load(); });
  const Snapshot expected = without_accident(2);
  on_every_rank(2, [&](const Comm& comm) {
    Trainee trainee(comm, disks.options(GetParam(), comm->rank()));
    trainee.window(0);
    comm->barrier("both have stepped")->wait();
    trainee.backward(1);
    comm->barrier("the first blocks may have come")->wait();
    broken = true;
    EXPECT_THAT(thrown<IoError>([&] { trainee.optimizer->gather("large", StateKind::kExpAvg); }),
                AllOf(HasSubstr("rank 0: "), HasSubstr("libzero-offload-rank-0")));
    comm->barrier("both have thrown")->wait();
    broken = false;
    trainee.optimizer->zero_grad();
    trainee.window(1);
    expect_same(expected, snapshot(trainee.model));
    trainee.optimizer->shutdown();
  });
}

/// Calls end in another order than they began.
TEST_P(OffloadFaultsTest, CallsThatOvertakeOneAnotherDoNotChangeBits) {
  Disks disks;
  std::mutex mutex;
  std::condition_variable arrived;
  int inside = 0;
  const auto hold = [&](int, void*, std::size_t, off_t at) -> std::optional<ssize_t> {
    std::unique_lock lock(mutex);
    ++inside;
    arrived.notify_all();
    // Every other block lets a later call go first, if there is one.
    if (at / 8192 % 2 == 0)
      arrived.wait_for(lock, std::chrono::milliseconds(2), [&] { return inside > 1; });
    --inside;
    return std::nullopt;
  };
  disks.bad->on_pread = hold;
  disks.bad->on_pwrite = hold;
  const Snapshot expected = without_accident(3);
  on_every_rank(2, [&](const Comm& comm) {
    Trainee trainee(comm, disks.options(GetParam(), comm->rank()));
    for (int step = 0; step < 3; ++step) trainee.window(step);
    expect_same(expected, snapshot(trainee.model));
    trainee.optimizer->shutdown();
  });
}

}  // namespace
}  // namespace zero::testing
