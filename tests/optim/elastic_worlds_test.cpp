/// Fifty steps of one global batch give the same bytes, wherever the ranks are and however they
/// share.

#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "tests/optim/elastic_support.h"

namespace zero::testing {
namespace {

constexpr std::int64_t kSmall = 2'000;  // each parameter a bucket, or nearly
constexpr std::int64_t kMiddle = 60'000;
constexpr std::int64_t kLarge = std::int64_t{25} << 20;  // all in one

struct Case {
  Precision precision;
  Place place;
};

/// Any two values of any two columns meet in a row: see the last test.
constexpr Case kCases[] = {
    {Precision::kFp32, {1, 0, kMiddle, false}},
    {Precision::kFp32, {2, 1, kLarge, true}},
    {Precision::kFp32, {4, 2, kSmall, true}},
    {Precision::kFp32, {8, 1, kLarge, true}},
    {Precision::kFp32Bf16Wire, {1, 1, kMiddle, true}},
    {Precision::kFp32Bf16Wire, {2, 0, kSmall, false}},
    {Precision::kFp32Bf16Wire, {4, 2, kLarge, true}},
    {Precision::kFp32Bf16Wire, {8, 1, kSmall, true}},
    {Precision::kBf16, {1, 2, kLarge, false}},
    {Precision::kBf16, {2, 2, kMiddle, false}},
    {Precision::kBf16, {4, 1, kMiddle, false}},
    {Precision::kBf16, {8, 0, kSmall, true}},
    {Precision::kFp16, {1, 1, kSmall, false}},
    {Precision::kFp16, {2, 1, kMiddle, true}},
    {Precision::kFp16, {4, 0, kLarge, false}},
    {Precision::kFp16, {8, 2, kMiddle, false}},
};

class ElasticWorlds : public ::testing::TestWithParam<Precision> {};
INSTANTIATE_TEST_SUITE_P(, ElasticWorlds,
                         ::testing::Values(Precision::kFp32, Precision::kFp32Bf16Wire,
                                           Precision::kBf16, Precision::kFp16),
                         [](const auto& instance) { return name_of(instance.param); });

TEST_P(ElasticWorlds, FiftyStepsOfOneGlobalBatchGiveTheSameBytesOnEveryWorld) {
  const Trained& expected = uninterrupted(GetParam());
  EXPECT_GE(expected.applied, 30);
  EXPECT_EQ(expected.applied < kElasticSteps, GetParam() == Precision::kFp16) << expected.applied;
  for (const Case& row : kCases) {
    if (row.precision != GetParam()) continue;
    SCOPED_TRACE(row.place.text());
    Trained trained;
    train_elastic(row.place, row.precision, kElasticSteps, trained);
    EXPECT_EQ(first_difference(expected, trained), "");
    EXPECT_EQ(first_difference(expected.history, trained.history), "") << "norms and losses";
  }
}

TEST(ElasticShards, MayBeginAtAnyMultipleOf64) {
  const Trained& expected = uninterrupted(Precision::kFp32);
  for (const int world_size : {2, 4}) {
    Trained trained;
    train_elastic({.world_size = world_size, .shard_alignment = 64}, Precision::kFp32,
                  kElasticSteps, trained);
    EXPECT_EQ(first_difference(expected, trained), "");
    EXPECT_EQ(first_difference(expected.history, trained.history), "") << "norms and losses";
  }
}

/// The model learns, so that equal bytes are no bytes that never moved.
TEST(ElasticModel, Learns) {
  Trained trained;
  train_elastic({}, Precision::kFp32, 1, trained);
  const auto before = trained.state;
  const Trained& after = uninterrupted(Precision::kFp32);
  for (const auto& [name, values] : after.state) EXPECT_NE(values, before.at(name)) << name;
  const auto loss_of = [](const std::string& line) {
    return std::stod(line.substr(line.find("loss ") + 5));
  };
  EXPECT_LT(loss_of(after.history.back()), 0.8 * loss_of(after.history.front()));
}

TEST(ElasticCases, EveryPairOfValuesOfEveryTwoColumnsMeets) {
  std::set<std::tuple<int, std::int64_t, int, std::int64_t>> met;
  std::set<std::int64_t> values[5];
  for (const Case& row : kCases) {
    const std::int64_t columns[] = {static_cast<std::int64_t>(row.precision), row.place.world_size,
                                    row.place.stage, row.place.bucket_bytes, row.place.defer};
    for (int a = 0; a < 5; ++a) {
      values[a].insert(columns[a]);
      for (int b = a + 1; b < 5; ++b) met.insert({a, columns[a], b, columns[b]});
    }
  }
  std::size_t pairs = 0;
  for (int a = 0; a < 5; ++a) {
    for (int b = a + 1; b < 5; ++b) pairs += values[a].size() * values[b].size();
  }
  EXPECT_EQ(met.size(), pairs);
  EXPECT_EQ(values[0].size() * values[1].size() * values[2].size(), 4u * 4u * 3u);
}

}  // namespace
}  // namespace zero::testing
