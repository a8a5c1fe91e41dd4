/// The whole product of what elastic_worlds_test.cpp takes pairs of: too long for every day.

#include <gtest/gtest.h>

#include <tuple>

#include "tests/optim/elastic_support.h"

namespace zero::testing {
namespace {

constexpr std::int64_t kBuckets[] = {2'000, 60'000, std::int64_t{25} << 20};

class ElasticProduct : public ::testing::TestWithParam<std::tuple<Precision, int>> {};
INSTANTIATE_TEST_SUITE_P(, ElasticProduct,
                         ::testing::Combine(::testing::Values(Precision::kFp32,
                                                              Precision::kFp32Bf16Wire,
                                                              Precision::kBf16, Precision::kFp16),
                                            ::testing::Values(1, 2, 4, 8)),
                         [](const auto& instance) {
                           return name_of(std::get<0>(instance.param)) + "_on_" +
                                  std::to_string(std::get<1>(instance.param));
                         });

TEST_P(ElasticProduct, OfStagesBucketsAndOverlapGivesTheSameBytesInEveryRow) {
  const auto [precision, world_size] = GetParam();
  const Trained& expected = uninterrupted(precision);
  int rows = 0;
  for (const int stage : {0, 1, 2}) {
    for (const std::int64_t bucket : kBuckets) {
      for (const bool defer : {false, true}) {
        const Place place{world_size, stage, bucket, defer};
        SCOPED_TRACE(place.text());
        Trained trained;
        train_elastic(place, precision, kElasticSteps, trained);
        EXPECT_EQ(first_difference(expected, trained), "");
        EXPECT_EQ(first_difference(expected.history, trained.history), "") << "norms and losses";
        ++rows;
      }
    }
  }
  RecordProperty("rows", rows);
  EXPECT_EQ(rows, 18);
}

}  // namespace
}  // namespace zero::testing
