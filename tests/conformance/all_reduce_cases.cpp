#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tests/conformance/array.h"
#include "tests/conformance/ranks.h"

namespace zero::testing {
namespace {

std::vector<std::int64_t> counts() {
  return {0, 1, 2, 7, 4099, 100'003};
}

void check_floating_sum(Collective& comm, DType dtype, std::int64_t count) {
  const auto parts = rank_patterns(dtype, count, comm.size(), 30);
  Array data = parts[static_cast<std::size_t>(comm.rank())];
  comm.all_reduce(data.buffer(), ReduceOp::kSum, "sum")->wait();
  Array expected(dtype, count);
  for (std::int64_t i = 0; i < count; ++i) expected.set(i, sum_in_rank_order(parts, i));
  EXPECT_TRUE(data == expected) << "rank " << comm.rank() << ", " << count << " elements";
}

void sums_floating(const Setting& setting, DType dtype) {
  run_ranks(setting, [&](std::shared_ptr<Collective>& comm) {
    for (const std::int64_t count : counts()) check_floating_sum(*comm, dtype, count);
  });
}

/// 60000 + 60000 - 60000 is finite only where nobody rounds to float16 in between.
void rounds_once(const Setting& setting) {
  run_ranks(setting, [&](std::shared_ptr<Collective>& comm) {
    const float values[] = {60000.0f, 60000.0f, -60000.0f};
    Array data(DType::kFloat16, 3);
    float expected = 0.0f;
    for (int r = 0; r < comm->size(); ++r) expected += values[r % 3];
    for (int i = 0; i < 3; ++i) data.set(i, values[comm->rank() % 3]);
    comm->all_reduce(data.buffer(), ReduceOp::kSum, "")->wait();
    Array rounded(DType::kFloat16, 1);
    rounded.set(0, expected);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(data.at(i), rounded.at(0));
  });
}

std::int64_t combine(ReduceOp op, std::int64_t a, std::int64_t b) {
  if (op == ReduceOp::kMax) return std::max(a, b);
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

/// Any bits: sums wrap around.
void reduces_int64(const Setting& setting, ReduceOp op) {
  run_ranks(setting, [&](std::shared_ptr<Collective>& comm) {
    for (const std::int64_t count : counts()) {
      const auto parts = rank_patterns(DType::kInt64, count, comm->size(), 40);
      Array data = parts[static_cast<std::size_t>(comm->rank())];
      comm->all_reduce(data.buffer(), op, "words")->wait();
      Array expected = parts[0];
      for (std::int64_t i = 0; i < count; ++i) {
        for (std::size_t r = 1; r < parts.size(); ++r) {
          expected.set_int(i, combine(op, expected.int_at(i), parts[r].int_at(i)));
        }
      }
      EXPECT_TRUE(data == expected) << count << " elements";
    }
  });
}

/// A maximum that starts from 0 would lose these.
void finds_the_maximum_of_negatives(const Setting& setting) {
  run_ranks(setting, [&](std::shared_ptr<Collective>& comm) {
    Array data(DType::kInt64, 2);
    data.set_int(0, std::numeric_limits<std::int64_t>::min() + comm->rank());
    data.set_int(1, -10 - comm->rank());
    comm->all_reduce(data.buffer(), ReduceOp::kMax, "vote")->wait();
    EXPECT_EQ(data.int_at(0), std::numeric_limits<std::int64_t>::min() + comm->size() - 1);
    EXPECT_EQ(data.int_at(1), -10);
  });
}

/// Stages of sharding agree bit for bit only if these do.
void equals_reduce_scatter_then_all_gather(const Setting& setting) {
  run_ranks(setting, [&](std::shared_ptr<Collective>& comm) {
    const std::int64_t slice = 1001;
    Array data = pattern(DType::kFloat32, slice * comm->size(), 50 + comm->rank());
    Array mine(DType::kFloat32, slice);
    Array whole(DType::kFloat32, slice * comm->size());
    comm->reduce_scatter(data.view(), mine.buffer(), {})->wait();
    comm->all_gather(mine.view(), whole.buffer(), "")->wait();
    comm->all_reduce(data.buffer(), ReduceOp::kSum, "")->wait();
    EXPECT_TRUE(data == whole);
  });
}

}  // namespace

std::vector<Case> all_reduce_cases() {
  std::vector<Case> cases;
  for (const DType dtype : kFloatingTypes) {
    cases.push_back({"AllReduceSumIsExact" + title_of(dtype),
                     [dtype](const Setting& s) { sums_floating(s, dtype); }});
  }
  cases.push_back({"AllReduceRoundsOnce", rounds_once});
  cases.push_back(
      {"AllReduceSumInt64Wraps", [](const Setting& s) { reduces_int64(s, ReduceOp::kSum); }});
  cases.push_back(
      {"AllReduceMaxInt64", [](const Setting& s) { reduces_int64(s, ReduceOp::kMax); }});
  cases.push_back({"AllReduceMaxOfNegatives", finds_the_maximum_of_negatives});
  cases.push_back(
      {"AllReduceEqualsReduceScatterThenAllGather", equals_reduce_scatter_then_all_gather});
  return cases;
}

}  // namespace zero::testing
