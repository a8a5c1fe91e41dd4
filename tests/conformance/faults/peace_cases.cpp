#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "libzero/base/error.h"
#include "tests/conformance/faults/cases.h"

namespace zero::fault_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

void mismatch_is_an_error_on_every_rank_and_writes_nothing(const Backend& backend) {
  backend.ranks.run_in_peace(3, [](Collective& comm) {
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

void mismatch_of_large_calls_is_an_error_on_every_rank_and_writes_nothing(const Backend& backend) {
  backend.ranks.run_in_peace(3, [](Collective& comm) {
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

void shutdown_is_final_and_repeatable(const Backend& backend) {
  backend.ranks.run_in_peace(2, [](Collective& comm) {
    comm.shutdown();
    comm.shutdown();
    EXPECT_THAT(what_of([&] { comm.barrier("late")->wait(); }), StartsWith("ContractError"));
  });
}

void many_worlds_leave_in_peace(const Backend& backend) {
  // The order in which ranks leave differs from round to round; nobody may take it for a death.
  for (int round = 0; round < 20; ++round) {
    backend.ranks.run_in_peace(3, [&](Collective& comm) {
      std::int64_t one = 1;
      comm.all_reduce({&one, 1, DType::kInt64}, ReduceOp::kMax, "")->wait();
    });
  }
}

std::ptrdiff_t entries_of(const char* folder) {
  return std::distance(std::filesystem::directory_iterator(folder), {});
}

void worlds_that_left_in_any_way_leave_no_threads_and_no_descriptors(const Backend& backend) {
  const auto worlds = [&](int rounds) {
    for (int round = 0; round < rounds; ++round) {
      backend.ranks.run_in_peace(2, [](Collective& comm) { comm.split(0, 0)->shutdown(); });
      backend.ranks.run(2, kPatience, [](Collective& comm) {
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

void several_communicators_work_at_the_same_time(const Backend& backend) {
  backend.ranks.run_in_peace(3, [](Collective& comm) {
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

std::vector<Case<Backend>> peace_cases() {
  return {{"MismatchIsAnErrorOnEveryRankAndWritesNothing",
           mismatch_is_an_error_on_every_rank_and_writes_nothing},
          {"MismatchOfLargeCallsIsAnErrorOnEveryRankAndWritesNothing",
           mismatch_of_large_calls_is_an_error_on_every_rank_and_writes_nothing},
          {"ShutdownIsFinalAndRepeatable", shutdown_is_final_and_repeatable},
          {"ManyWorldsLeaveInPeace", many_worlds_leave_in_peace},
          {"WorldsThatLeftInAnyWayLeaveNoThreadsAndNoDescriptors",
           worlds_that_left_in_any_way_leave_no_threads_and_no_descriptors},
          {"SeveralCommunicatorsWorkAtTheSameTime", several_communicators_work_at_the_same_time}};
}

}  // namespace zero::fault_test
