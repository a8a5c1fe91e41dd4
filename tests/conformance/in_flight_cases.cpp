#include <gtest/gtest.h>

#include <mutex>

#include "tests/conformance/array.h"
#include "tests/conformance/ranks.h"

namespace zero::testing {
namespace {

constexpr int kRounds = 12;
constexpr std::int64_t kSlice = 777;

/// The buffers of one round of calls; they must outlive the calls.
struct Calls {
  Calls(int rank, int size, int round)
      : gradients(pattern(DType::kBFloat16, kSlice * size, 1000 * round + rank)),
        sum(DType::kFloat32, kSlice),
        part(pattern(DType::kFloat32, kSlice, 2000 * round + rank)),
        whole(DType::kFloat32, kSlice * size),
        vote(DType::kInt64, 1) {
    vote.set_int(0, round * rank);
  }

  void issue(Collective& comm, std::vector<WorkPtr>& works) {
    works.push_back(comm.reduce_scatter(gradients.view(), sum.buffer(), {}));
    works.push_back(comm.all_gather(part.view(), whole.buffer(), "gather"));
    works.push_back(comm.all_reduce(vote.buffer(), ReduceOp::kMax, "vote"));
    works.push_back(comm.barrier(""));
  }

  Array gradients, sum, part, whole, vote;
};

void check_round(const Calls& calls, Collective& comm, int round) {
  const auto gradients =
      rank_patterns(DType::kBFloat16, kSlice * comm.size(), comm.size(), 1000 * round);
  for (std::int64_t i = 0; i < kSlice; ++i) {
    ASSERT_EQ(calls.sum.at(i), sum_in_rank_order(gradients, comm.rank() * kSlice + i));
  }
  for (int r = 0; r < comm.size(); ++r) {
    const Array part = pattern(DType::kFloat32, kSlice, 2000 * round + r);
    for (std::int64_t i = 0; i < kSlice; ++i) {
      ASSERT_EQ(calls.whole.at(r * kSlice + i), part.at(i));
    }
  }
  EXPECT_EQ(calls.vote.int_at(0), round * (comm.size() - 1));
}

/// Work may be waited for late, in any order, and more than once.
void many_calls_before_the_first_wait(const Setting& setting) {
  run_ranks(setting, [&](std::shared_ptr<Collective>& comm) {
    std::vector<Calls> rounds;
    for (int i = 0; i < kRounds; ++i) rounds.emplace_back(comm->rank(), comm->size(), i);
    std::vector<WorkPtr> works;
    for (Calls& calls : rounds) calls.issue(*comm, works);
    for (auto work = works.rbegin(); work != works.rend(); ++work) {
      (*work)->wait();
      EXPECT_TRUE((*work)->test());
      (*work)->wait();
    }
    for (int i = 0; i < kRounds; ++i) check_round(rounds[static_cast<std::size_t>(i)], *comm, i);
  });
}

/// One round: every rank overwrites what it gave as soon as its own wait() is over; nobody may see
/// that.
void give_and_overwrite(Collective& comm, std::int64_t count, int round) {
  const int root = round % comm.size();
  Array given = pattern(DType::kFloat32, count, 90 + comm.rank());
  Array whole(DType::kFloat32, count * comm.size());
  comm.all_gather(given.view(), whole.buffer(), "")->wait();
  given = pattern(DType::kFloat32, count, 1);

  Array sum = pattern(DType::kFloat32, count, 90 + comm.rank());
  comm.all_reduce(sum.buffer(), ReduceOp::kSum, "")->wait();
  const Array kept = sum;
  sum = pattern(DType::kFloat32, count, 2);

  Array copied = pattern(DType::kFloat32, count, 90 + comm.rank());
  comm.broadcast(copied.buffer(), root, "")->wait();
  const bool copied_root = copied == pattern(DType::kFloat32, count, 90 + root);
  copied = pattern(DType::kFloat32, count, 3);

  const auto parts = rank_patterns(DType::kFloat32, count, comm.size(), 90);
  Array expected(DType::kFloat32, count);
  for (std::int64_t i = 0; i < count; ++i) expected.set(i, sum_in_rank_order(parts, i));
  EXPECT_TRUE(kept == expected) << "all_reduce, round " << round;
  for (int r = 0; r < comm.size(); ++r) {
    expected.write_slice(0, parts[static_cast<std::size_t>(r)]);
    Array slice(DType::kFloat32, count);
    for (std::int64_t i = 0; i < count; ++i) slice.set(i, whole.at(r * count + i));
    EXPECT_TRUE(slice == expected) << "all_gather, round " << round << ", slice " << r;
  }
  EXPECT_TRUE(copied_root) << "broadcast, round " << round;
  EXPECT_TRUE(sum == pattern(DType::kFloat32, count, 2)) << "written after wait()";
}

void buffers_are_the_callers_after_wait(const Setting& setting) {
  run_ranks(setting, [&](std::shared_ptr<Collective>& comm) {
    for (int round = 0; round < 20; ++round) give_and_overwrite(*comm, 20'000, round);
  });
}

/// What one rank computes in a fresh world.
std::vector<Array> sums_of_a_run(const Setting& setting) {
  std::mutex mutex;
  std::vector<Array> sums(static_cast<std::size_t>(setting.world_size), Array(DType::kFloat32, 0));
  run_ranks(setting, [&](std::shared_ptr<Collective>& comm) {
    const std::int64_t slice = 20'001;
    const Array in = pattern(DType::kFloat32, slice * comm->size(), 80 + comm->rank());
    Array out(DType::kFloat32, slice);
    comm->reduce_scatter(in.view(), out.buffer(), {})->wait();
    comm->all_reduce(out.buffer(), ReduceOp::kSum, "")->wait();
    const std::lock_guard lock(mutex);
    sums[static_cast<std::size_t>(comm->rank())] = out;
  });
  return sums;
}

void runs_give_equal_bits(const Setting& setting) {
  const auto first = sums_of_a_run(setting);
  const auto second = sums_of_a_run(setting);
  EXPECT_TRUE(first == second);
  for (const Array& sum : first) EXPECT_TRUE(sum == first[0]);
}

}  // namespace

std::vector<Case> in_flight_cases() {
  return {{"ManyCallsBeforeTheFirstWait", many_calls_before_the_first_wait},
          {"BuffersAreTheCallersAfterWait", buffers_are_the_callers_after_wait},
          {"BackToBackRunsGiveEqualBits", runs_give_equal_bits}};
}

}  // namespace zero::testing
