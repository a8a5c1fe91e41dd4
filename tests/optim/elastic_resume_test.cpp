/// A run whose number of ranks changes on the way ends with the bytes of one that was never
/// interrupted.

#include <gtest/gtest.h>

#include "tests/optim/elastic_support.h"

namespace zero::testing {
namespace {

struct Leg {
  std::int64_t last;
  Place place;
};

constexpr std::int64_t kBuckets = 60'000;

void expect_uninterrupted(Precision precision, const std::vector<Leg>& legs) {
  Trained trained;
  std::unique_ptr<checkpoint::Store> from;
  std::int64_t from_step = 0;
  for (const Leg& leg : legs) {
    SCOPED_TRACE("until step " + std::to_string(leg.last) + ": " + leg.place.text());
    auto into = checkpoint::make_memory_store();
    train_elastic(leg.place, precision, leg.last, trained, from.get(), from_step, into.get());
    from = std::move(into);
    from_step = leg.last;
  }
  const Trained& expected = uninterrupted(precision);
  EXPECT_EQ(first_difference(expected, trained), "");
  EXPECT_EQ(first_difference(expected.history, trained.history), "");
}

class ElasticResume : public ::testing::TestWithParam<Precision> {};
INSTANTIATE_TEST_SUITE_P(, ElasticResume,
                         ::testing::Values(Precision::kFp32, Precision::kFp32Bf16Wire,
                                           Precision::kBf16, Precision::kFp16),
                         [](const auto& instance) { return name_of(instance.param); });

TEST_P(ElasticResume, FourTwoOneAndFourRanksAgainGiveTheBytesOfOneRun) {
  expect_uninterrupted(GetParam(), {{13, {4, 2, kBuckets, false}},
                                    {26, {2, 0, kBuckets, true}},
                                    {37, {1, 1, kBuckets, false}},
                                    {50, {4, 1, kBuckets, true}}});
}

TEST(ElasticGrowth, FromOneToEightRanksToo) {
  expect_uninterrupted(
      Precision::kFp32,
      {{1, {1, 0, kBuckets, true}}, {2, {8, 2, kBuckets, false}}, {50, {2, 2, kBuckets, false}}});
}

}  // namespace
}  // namespace zero::testing
