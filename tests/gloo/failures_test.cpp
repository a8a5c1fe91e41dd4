#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <latch>
#include <thread>

#include "libzero/base/error.h"
#include "tests/gloo/world.h"

namespace zero::gloo_test {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kShort{400};
constexpr std::int64_t kLarge = 1 << 20;  // floats a rank: twice what is ever in flight

std::string what_of(const std::function<void()>& call) {
  try {
    call();
    return "";
  } catch (const ContractError& error) {
    return std::string("ContractError: ") + error.what();
  } catch (const CommError& error) {
    return std::string("CommError: ") + error.what();
  }
}

void reduce_scatter(Collective& comm, std::int64_t each, const Epilogue& epilogue = nullptr) {
  const std::vector<float> in(static_cast<std::size_t>(each * comm.size()), 1.0f);
  std::vector<float> out(static_cast<std::size_t>(each));
  if (each == kLarge) comm.barrier("all have their memory")->wait();
  comm.reduce_scatter({in.data(), each * comm.size(), DType::kFloat32},
                      {out.data(), each, DType::kFloat32}, {false, epilogue, "bucket 7"})
      ->wait();
}

TEST(GlooFailures, MismatchIsAnErrorOnEveryRankAndWritesNothing) {
  run_in_peace(3, [](Collective& comm) {
    std::vector<float> data(1000, 3.0f);
    const std::int64_t count = comm.rank() == 1 ? 1000 : 999;
    EXPECT_THAT(
        what_of([&] {
          comm.all_reduce({data.data(), count, DType::kFloat32}, ReduceOp::kSum, "grads")->wait();
        }),
        AllOf(StartsWith("ContractError"), HasSubstr("1000"), HasSubstr("999")));
    EXPECT_EQ(data, std::vector<float>(1000, 3.0f));
    EXPECT_THAT(what_of([&] {
                  if (comm.rank() == 2) comm.barrier("end")->wait();
                  if (comm.rank() != 2)
                    comm.broadcast({data.data(), 8, DType::kFloat32}, comm.rank(), "")->wait();
                }),
                AllOf(StartsWith("ContractError"), HasSubstr("barrier"), HasSubstr("from rank 1")));
    std::int64_t ranks = 1;
    comm.all_reduce({&ranks, 1, DType::kInt64}, ReduceOp::kSum, "")->wait();
    EXPECT_EQ(ranks, 3);
  });
}

TEST(GlooFailures, RankThatDoesNotComeIsNamedWithNumberAndLabel) {
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

TEST(GlooFailures, RankThatFallsSilentInTheMiddleIsNamedOnEveryRank) {
  std::latch others_failed(2);
  const auto errors = run_ranks(3, kShort, [&](Collective& comm) {
    Epilogue epilogue;
    if (comm.rank() == 2)
      epilogue = [&](std::int64_t begin, std::int64_t) {
        if (begin == 0) others_failed.wait();
      };
    const auto text = what_of([&] { reduce_scatter(comm, kLarge, epilogue); });
    if (comm.rank() != 2) others_failed.count_down();
    EXPECT_THAT(text, AllOf(StartsWith("CommError"), HasSubstr("rank 2 fell silent"),
                            HasSubstr("#2"), HasSubstr("bucket 7")));
  });
}

TEST(GlooFailures, AbortReachesEveryRankWhereverItIs) {
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
}

TEST(GlooFailures, AbortFromAnotherThreadEndsATransferInFlight) {
  std::vector<std::string> errors = run_ranks(2, kPatience, [&](Collective& comm) {
    std::thread aborter;
    Epilogue epilogue;
    if (comm.rank() == 0)
      epilogue = [&](std::int64_t begin, std::int64_t) {
        if (begin == 0) aborter = std::thread([&] { comm.abort("enough"); });
        if (begin == 0) aborter.join();
      };
    reduce_scatter(comm, kLarge, epilogue);
  });
  EXPECT_THAT(errors, Each(AllOf(StartsWith("CommError"), HasSubstr("rank 0 aborted: enough"))));
}

TEST(GlooFailures, LeavingWithoutShutdownIsNamedAtOnce) {
  const auto errors = run_ranks(3, kPatience, [&](Collective& comm) {
    comm.barrier("together")->wait();
    if (comm.rank() == 0) return;
    reduce_scatter(comm, 10);
  });
  EXPECT_EQ(errors[0], "");
  EXPECT_THAT(errors[1], HasSubstr("rank 0 left without shutdown()"));
  EXPECT_THAT(errors[2], HasSubstr("rank 0 left without shutdown()"));
}

TEST(GlooFailures, RanksThatNeverJoinAreNamed) {
  const auto store = make_memory_store();
  const auto text = what_of([&] { join(1, 4, store, kShort); });
  EXPECT_THAT(text,
              AllOf(StartsWith("CommError"), HasSubstr("ranks 0, 2, 3"), HasSubstr("400 ms")));
}

TEST(GlooFailures, ShutdownIsFinalAndRepeatable) {
  run_in_peace(2, [](Collective& comm) {
    comm.shutdown();
    comm.shutdown();
    EXPECT_THAT(what_of([&] { comm.barrier("late")->wait(); }), StartsWith("ContractError"));
  });
}

TEST(GlooFailures, ManyWorldsLeaveInPeace) {
  // The order in which ranks leave differs from round to round; nobody may take it for a death.
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

TEST(GlooFailures, WorldsThatLeftInAnyWayLeaveNoThreadsAndNoDescriptors) {
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

}  // namespace
}  // namespace zero::gloo_test
