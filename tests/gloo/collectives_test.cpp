#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "libzero/base/float16.h"
#include "tests/gloo/world.h"

namespace zero::gloo_test {
namespace {

/// Values of which fp32 sums depend on the order of adding.
float value(int rank, std::int64_t i) {
  const float sign = (i + rank) % 3 == 0 ? -1.0f : 1.0f;
  return sign * (1.0f + static_cast<float>(i % 1013) * 0.37f) *
         (rank % 2 == 0 ? 1.0f : 1048576.0f) / static_cast<float>(rank + 1);
}

std::vector<float> values(int rank, std::int64_t count) {
  std::vector<float> v(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) v[static_cast<std::size_t>(i)] = value(rank, i);
  return v;
}

float rank_order_sum(int size, std::int64_t i, float start = 0.0f) {
  for (int rank = 0; rank < size; ++rank) start += value(rank, i);
  return start;
}

std::uint32_t bits(float x) {
  std::uint32_t b;
  std::memcpy(&b, &x, sizeof(b));
  return b;
}

constexpr std::int64_t kSeveralSegments = 3 * 262'144 + 4'097;

class GlooWorlds : public ::testing::TestWithParam<int> {};

TEST_P(GlooWorlds, ReduceScatterOfSeveralSegmentsAddsInRankOrder) {
  const int size = GetParam();
  kRanks.run_in_peace(size, [&](Collective& comm) {
    for (const std::int64_t each : {kSeveralSegments, std::int64_t{1}, std::int64_t{0}}) {
      const auto in = values(comm.rank(), each * size);
      std::vector<float> out(static_cast<std::size_t>(each), 0.5f);
      std::int64_t covered = 0;
      ReduceScatterOptions options{true,
                                   [&](std::int64_t begin, std::int64_t count) {
                                     ASSERT_EQ(begin, covered);
                                     ASSERT_EQ(begin % kEpilogueBlock, 0);
                                     covered += count;
                                   },
                                   "bucket 3"};
      comm.reduce_scatter({in.data(), each * size, DType::kFloat32},
                          {out.data(), each, DType::kFloat32}, options)
          ->wait();
      EXPECT_EQ(covered, each);
      std::int64_t wrong = 0;
      for (std::int64_t i = 0; i < each; ++i) {
        const float want = rank_order_sum(size, comm.rank() * each + i, 0.5f);
        wrong += bits(out[static_cast<std::size_t>(i)]) != bits(want);
      }
      EXPECT_EQ(wrong, 0);
    }
  });
}

TEST_P(GlooWorlds, AllReduceGivesTheSameBitsOnEveryPath) {
  const int size = GetParam();
  kRanks.run_in_peace(size, [&](Collective& comm) {
    // Along with the header, gathered whole, and in slices (the last ones empty or short).
    for (const std::int64_t count : {0L, 1L, 37L, 5'000L, 16'385L, kSeveralSegments}) {
      auto data = values(comm.rank(), count);
      comm.all_reduce({data.data(), count, DType::kFloat32}, ReduceOp::kSum, "sum")->wait();
      std::int64_t wrong = 0;
      for (std::int64_t i = 0; i < count; ++i) {
        wrong += bits(data[static_cast<std::size_t>(i)]) != bits(rank_order_sum(size, i));
      }
      EXPECT_EQ(wrong, 0) << count;
    }
  });
}

TEST_P(GlooWorlds, AllReduceOfBFloat16RoundsOnce) {
  const int size = GetParam();
  kRanks.run_in_peace(size, [&](Collective& comm) {
    for (const std::int64_t count : {11L, 40'000L}) {
      std::vector<std::uint16_t> data(static_cast<std::size_t>(count));
      for (std::int64_t i = 0; i < count; ++i) {
        data[static_cast<std::size_t>(i)] = bfloat16_from_float(value(comm.rank(), i));
      }
      comm.all_reduce({data.data(), count, DType::kBFloat16}, ReduceOp::kSum, "")->wait();
      std::int64_t wrong = 0;
      for (std::int64_t i = 0; i < count; ++i) {
        float sum = 0.0f;
        for (int r = 0; r < size; ++r) {
          sum += float_from_bfloat16(bfloat16_from_float(value(r, i)));
        }
        wrong += data[static_cast<std::size_t>(i)] != bfloat16_from_float(sum);
      }
      EXPECT_EQ(wrong, 0) << count;
    }
  });
}

TEST_P(GlooWorlds, GathersAndBroadcastsSmallAndLarge) {
  const int size = GetParam();
  kRanks.run_in_peace(size, [&](Collective& comm) {
    for (const std::int64_t each : {3L, 300'001L}) {
      std::vector<float> all(static_cast<std::size_t>(each * size), -1.0f);
      float* own = all.data() + comm.rank() * each;
      std::fill_n(own, each, static_cast<float>(comm.rank()));
      comm.all_gather({own, each, DType::kFloat32}, {all.data(), each * size, DType::kFloat32}, "")
          ->wait();
      for (int r = 0; r < size; ++r) {
        EXPECT_EQ(all[static_cast<std::size_t>(r * each)], static_cast<float>(r));
        EXPECT_EQ(all[static_cast<std::size_t>((r + 1) * each - 1)], static_cast<float>(r));
      }
      std::vector<std::int64_t> data(static_cast<std::size_t>(each), comm.rank());
      const int root = size - 1;
      comm.broadcast({data.data(), each, DType::kInt64}, root, "")->wait();
      EXPECT_EQ(data, std::vector<std::int64_t>(static_cast<std::size_t>(each), root));
    }
  });
}

TEST_P(GlooWorlds, SplitsIntoWorldsOfTheirOwn) {
  const int size = GetParam();
  kRanks.run_in_peace(size, [&](Collective& comm) {
    // Odd ranks, in reverse order; twice, so that the second cannot read the first's keys.
    for (int round = 0; round < 2; ++round) {
      const auto child = comm.split(comm.rank() % 2 == 1 ? 7 : -1, -comm.rank());
      if (comm.rank() % 2 == 0) {
        EXPECT_EQ(child, nullptr);
        continue;
      }
      EXPECT_EQ(child->size(), size / 2);
      EXPECT_EQ(child->rank(), child->size() - 1 - comm.rank() / 2);
      std::int64_t sum = comm.rank();
      child->all_reduce({&sum, 1, DType::kInt64}, ReduceOp::kSum, "")->wait();
      EXPECT_EQ(sum, static_cast<std::int64_t>(size / 2) * (size / 2));
      child->shutdown();
    }
    comm.barrier("after")->wait();
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, GlooWorlds, ::testing::Values(1, 2, 3, 5),
                         [](const auto& world) { return std::to_string(world.param); });

}  // namespace
}  // namespace zero::gloo_test
