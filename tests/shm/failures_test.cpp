#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <latch>
#include <thread>

#include "libzero/base/error.h"
#include "tests/shm/world.h"

namespace zero::shm_test {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kShort{400};
constexpr std::int64_t kLarge = 1 << 20;  // floats a rank: several times what all rows hold

void reduce_scatter(Collective& comm, std::int64_t each, const Epilogue& epilogue = nullptr) {
  const std::vector<float> in(static_cast<std::size_t>(each * comm.size()), 1.0f);
  std::vector<float> out(static_cast<std::size_t>(each));
  if (each == kLarge) comm.barrier("all have their memory")->wait();
  comm.reduce_scatter({in.data(), each * comm.size(), DType::kFloat32},
                      {out.data(), each, DType::kFloat32}, {false, epilogue, "bucket 7"})
      ->wait();
}

Epilogue at_the_first_piece(std::function<void()> action) {
  return [action = std::move(action)](std::int64_t begin, std::int64_t) {
    if (begin == 0) action();
  };
}

TEST(ShmFailures, MismatchOfLargeCallsIsAnErrorOnEveryRankAndWritesNothing) {
  run_in_peace(3, [](Collective& comm) {
    const std::int64_t count = comm.rank() == 1 ? kLarge : kLarge - 1;
    std::vector<float> data(static_cast<std::size_t>(kLarge), 3.0f);
    EXPECT_THAT(
        what_of([&] {
          comm.all_reduce({data.data(), count, DType::kFloat32}, ReduceOp::kSum, "grads")->wait();
        }),
        AllOf(StartsWith("ContractError"), HasSubstr("1048576"), HasSubstr("1048575")));
    EXPECT_EQ(data, std::vector<float>(static_cast<std::size_t>(kLarge), 3.0f));
    reduce_scatter(comm, kLarge);  // goes on where it was
  });
}

TEST(ShmFailures, RankThatDoesNotComeIsNamedWithNumberAndLabel) {
  std::latch others_failed(2);
  const auto start = Clock::now();
  const auto errors = run_ranks(3, kShort, [&](Collective& comm) {
    comm.barrier("first")->wait();
    if (comm.rank() == 1) {
      others_failed.wait();
    } else {
      const auto text = what_of([&] { reduce_scatter(comm, 10); });
      EXPECT_GE(Clock::now() - start, kShort);
      others_failed.count_down();
      EXPECT_THAT(text, AllOf(HasSubstr("rank 1 did not come"), HasSubstr("#2"),
                              HasSubstr("bucket 7"), HasSubstr("400 ms")));
    }
    comm.barrier("after")->wait();
  });
  EXPECT_THAT(errors, Each(AllOf(StartsWith("CommError"), HasSubstr("rank 1 did not come"))));
}

TEST(ShmFailures, RankThatFallsSilentInTheMiddleIsNamedOnEveryRank) {
  std::latch others_failed(2);
  const auto errors = run_ranks(3, kShort, [&](Collective& comm) {
    const auto epilogue =
        comm.rank() == 2 ? at_the_first_piece([&] { others_failed.wait(); }) : Epilogue{};
    const auto text = what_of([&] { reduce_scatter(comm, kLarge, epilogue); });
    if (comm.rank() != 2) others_failed.count_down();
    EXPECT_THAT(text, AllOf(StartsWith("CommError"), HasSubstr("rank 2 fell silent"),
                            HasSubstr("#2"), HasSubstr("bucket 7")));
  });
}

TEST(ShmFailures, AbortReachesEveryRankWhereverItIs) {
  const auto start = Clock::now();
  std::promise<void> middle;
  const auto errors = run_ranks(3, kPatience, [&](Collective& comm) {
    if (comm.rank() == 2) {  // never comes to the call in which the others wait
      middle.get_future().wait();
      comm.abort("the operator said so");
      comm.abort("a later reason");
      comm.barrier("too late")->wait();
    }
    std::thread signal;
    if (comm.rank() == 0) signal = std::thread([&] { middle.set_value(); });
    const auto text = what_of([&] { reduce_scatter(comm, 10); });
    if (signal.joinable()) signal.join();
    EXPECT_THAT(text, HasSubstr("rank 2 aborted: the operator said so"));
    comm.barrier("dead")->wait();
  });
  EXPECT_THAT(errors,
              Each(AllOf(StartsWith("CommError"), HasSubstr("rank 2 aborted: the operator"))));
  EXPECT_LT(Clock::now() - start, kPatience / 4);
}

TEST(ShmFailures, AbortFromAnotherThreadEndsATransferInFlight) {
  const auto errors = run_ranks(2, kPatience, [&](Collective& comm) {
    const auto abort = [&] { std::thread([&] { comm.abort("enough"); }).join(); };
    reduce_scatter(comm, kLarge, comm.rank() == 0 ? at_the_first_piece(abort) : Epilogue{});
  });
  EXPECT_THAT(errors, Each(AllOf(StartsWith("CommError"), HasSubstr("rank 0 aborted: enough"))));
}

TEST(ShmFailures, EpilogueThatThrowsEndsTheCallEverywhere) {
  const auto errors = run_ranks(2, kPatience, [&](Collective& comm) {
    const auto complain = [] { throw std::runtime_error("disk full"); };
    reduce_scatter(comm, kLarge, comm.rank() == 0 ? at_the_first_piece(complain) : Epilogue{});
  });
  EXPECT_THAT(errors, Each(HasSubstr("rank 0 gave up: disk full")));
}

TEST(ShmFailures, LeavingWithoutShutdownIsNamedAtOnce) {
  const auto start = Clock::now();
  const auto errors = run_ranks(3, kPatience, [&](Collective& comm) {
    comm.barrier("together")->wait();
    if (comm.rank() == 0) return;
    reduce_scatter(comm, 10);
  });
  EXPECT_EQ(errors[0], "");
  EXPECT_THAT(errors[1], HasSubstr("rank 0 left without shutdown()"));
  EXPECT_THAT(errors[2], HasSubstr("rank 0 left without shutdown()"));
  EXPECT_LT(Clock::now() - start, kPatience / 4);
}

TEST(ShmFailures, WhatAllRanksHaveComeToIsNotLostWithARankThatLeavesThen) {
  // The first to be through leaves in bad order; whoever is still on its way has all it needs.
  for (int round = 0; round < 50; ++round) {
    const auto errors = run_ranks(4, kPatience, [&](Collective& comm) {
      const std::int64_t each = 5000;  // rows, but less than a rank may be ahead
      reduce_scatter(comm, each);
    });
    EXPECT_THAT(errors, Each("")) << "round " << round;
  }
}

TEST(ShmFailures, RanksThatNeverJoinAreNamed) {
  const auto store = make_memory_store();
  EXPECT_THAT(what_of([&] { join(1, 4, store, kShort); }),
              AllOf(StartsWith("CommError"), HasSubstr("rank 0 did not finish joining")));
}

TEST(ShmFailures, ManyWorldsLeaveInPeace) {
  for (int round = 0; round < 20; ++round) {
    run_in_peace(3, [&](Collective& comm) {
      std::int64_t one = 1;
      comm.all_reduce({&one, 1, DType::kInt64}, ReduceOp::kMax, "")->wait();
    });
  }
}

std::ptrdiff_t entries_of(const char* folder) {
  return std::distance(std::filesystem::directory_iterator(folder), {});
}

TEST(ShmFailures, WorldsThatLeftInAnyWayLeaveNoThreadsAndNoDescriptors) {
  const auto worlds = [](int rounds) {
    for (int round = 0; round < rounds; ++round) {
      run_in_peace(2, [](Collective& comm) { comm.split(0, 0)->shutdown(); });
      run_ranks(2, kPatience, [](Collective& comm) {
        if (comm.rank() == 0) reduce_scatter(comm, 10);
      });
    }
  };
  worlds(1);  // what is opened once and for all
  const auto threads = entries_of("/proc/self/task");
  const auto descriptors = entries_of("/proc/self/fd");
  worlds(25);
  EXPECT_EQ(entries_of("/proc/self/task"), threads);
  EXPECT_EQ(entries_of("/proc/self/fd"), descriptors);
}

TEST(ShmFailures, SeveralCommunicatorsWorkAtTheSameTime) {
  run_in_peace(3, [](Collective& comm) {
    const auto other = comm.split(0, 0);
    std::thread beside([&] {
      for (int i = 0; i < 20; ++i) reduce_scatter(*other, 60'000);
      other->shutdown();
    });
    for (int i = 0; i < 20; ++i) reduce_scatter(comm, 70'001);
    beside.join();
  });
}

}  // namespace
}  // namespace zero::shm_test
