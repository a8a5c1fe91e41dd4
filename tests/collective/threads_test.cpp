#include "libzero/collective/threads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "libzero/base/error.h"

namespace zero {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Threads, RefusesWorldsWithoutRanksAndWaitsWithoutTime) {
  EXPECT_THROW(make_threads(0, seconds(1)), ContractError);
  EXPECT_THROW(make_threads(2, milliseconds(0)), ContractError);
}

TEST(Threads, SumsInRankOrderAndLeavesInGoodOrder) {
  auto ranks = make_threads(3, seconds(20));
  std::vector<float> sums(3);
  std::vector<std::thread> threads;
  for (int r = 0; r < 3; ++r) {
    threads.emplace_back([&, r] {
      auto& comm = *ranks[static_cast<std::size_t>(r)];
      const std::vector<float> in = {1.0f + static_cast<float>(r), 10.0f, 100.0f};
      comm.reduce_scatter({in.data(), 3, DType::kFloat32},
                          {&sums[static_cast<std::size_t>(r)], 1, DType::kFloat32}, {})
          ->wait();
      comm.shutdown();
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(sums, (std::vector<float>{6.0f, 30.0f, 300.0f}));
}

TEST(Threads, EpilogueThatThrowsEndsTheCallOnEveryRank) {
  auto ranks = make_threads(2, seconds(20));
  std::vector<std::string> texts(2);
  std::vector<std::thread> threads;
  for (int r = 0; r < 2; ++r) {
    threads.emplace_back([&, r] {
      const std::vector<float> in(2);
      float out = 0;
      ReduceScatterOptions options;
      if (r == 1) options.epilogue = [](std::int64_t, std::int64_t) { throw Error("broken norm"); };
      try {
        ranks[static_cast<std::size_t>(r)]
            ->reduce_scatter({in.data(), 2, DType::kFloat32}, {&out, 1, DType::kFloat32}, options)
            ->wait();
      } catch (const CommError& error) {
        texts[static_cast<std::size_t>(r)] = error.what();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& text : texts) {
    EXPECT_THAT(text, ::testing::HasSubstr("the epilogue of rank 1 threw: broken norm"));
  }
}

}  // namespace
}  // namespace zero
