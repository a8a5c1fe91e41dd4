/// Every sample of an epoch exactly once, on any number of ranks, also when that number changes in
/// its middle.

#include "libzero/train/sampler.h"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "libzero/base/error.h"
#include "tests/thrown.h"

namespace zero {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::thrown;
using Indices = std::vector<std::int64_t>;

Indices counted_to(std::int64_t count) {
  Indices all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

Indices sorted(Indices indices) {
  std::sort(indices.begin(), indices.end());
  return indices;
}

Indices whole(const Permutation& permutation) {
  Indices all;
  for (std::int64_t i = 0; i < permutation.count(); ++i) all.push_back(permutation.at(i));
  return all;
}

RC_GTEST_PROP(Permutation, HasEveryElementOnce, ()) {
  const auto count = *rc::gen::inRange<std::int64_t>(1, 2000);
  const Permutation permutation(count, *rc::gen::arbitrary<std::uint64_t>(),
                                *rc::gen::inRange<std::int64_t>(0, 1000));
  RC_ASSERT(sorted(whole(permutation)) == counted_to(count));
}

/// From the formulas of permutation.h in Python.
TEST(Permutation, IsTheSameInEveryVersion) {
  EXPECT_THAT(whole(Permutation(10, 1, 0)), ElementsAre(4, 5, 8, 1, 7, 6, 2, 0, 3, 9));
  EXPECT_THAT(whole(Permutation(10, 1, 1)), ElementsAre(8, 9, 4, 7, 0, 1, 3, 2, 6, 5));
  const Permutation large(std::int64_t{1} << 40, ~std::uint64_t{0}, 7);
  EXPECT_THAT((Indices{large.at(0), large.at(1), large.at((std::int64_t{1} << 40) - 1)}),
              ElementsAre(475550628667, 212353723928, 917354717730));
}

/// The statistic's 99.9999 % point for 23 degrees of freedom is 68.
TEST(Permutation, EachOrderOfFourComesAsOften) {
  std::map<Indices, int> seen;
  constexpr int kEpochs = 24'000;
  for (std::int64_t epoch = 0; epoch < kEpochs; ++epoch) ++seen[whole(Permutation(4, 5, epoch))];
  ASSERT_EQ(seen.size(), 24u);
  double chi_squared = 0;
  for (const auto& [order, times] : seen) chi_squared += (times - 1000.0) * (times - 1000.0) / 1000;
  EXPECT_LT(chi_squared, 68);
}

TEST(Permutation, NeighboursAndEpochsAreUncorrelated) {
  constexpr std::int64_t kCount = 20'000;
  const Permutation here(kCount, 5, 0), next_epoch(kCount, 5, 1), next_seed(kCount, 6, 0);
  const auto correlation = [&](auto a, auto b) {
    const double mean = (kCount - 1) / 2.0, variance = (double(kCount) * kCount - 1) / 12;
    double sum = 0;
    for (std::int64_t i = 0; i + 1 < kCount; ++i)
      sum += (static_cast<double>(a(i)) - mean) * (static_cast<double>(b(i)) - mean);
    return sum / (kCount - 1) / variance;
  };
  const auto of = [](const Permutation& p, std::int64_t shift = 0) {
    return [&p, shift](std::int64_t i) { return p.at(i + shift); };
  };
  const double five_errors = 5 / std::sqrt(double(kCount));
  EXPECT_NEAR(correlation(of(here), of(here, 1)), 0, five_errors);
  EXPECT_NEAR(correlation(of(here), of(next_epoch)), 0, five_errors);
  EXPECT_NEAR(correlation(of(here), of(next_seed)), 0, five_errors);
  EXPECT_NEAR(correlation(of(here), [](std::int64_t i) { return i; }), 0, five_errors);
}

TEST(Permutation, ArgumentsOutOfRangeAreNamed) {
  EXPECT_THAT(thrown<ContractError>([] { Permutation(0, 1, 0); }), HasSubstr("count"));
  EXPECT_THAT(thrown<ContractError>([] { Permutation(1, 1, -1); }), HasSubstr("epoch"));
  EXPECT_THAT(thrown<ContractError>([] { Permutation(3, 1, 0).at(3); }), HasSubstr("index"));
  EXPECT_THAT(thrown<ContractError>([] { Permutation(3, 1, 0).at(-1); }), HasSubstr("index"));
}

/// What all ranks together train on in a step, and what comes after it.
Indices dealt(const SampleBatch& batch, std::int64_t micro_batch, int ranks) {
  Indices by_index(batch.samples.size(), -1);
  for (int rank = 0; rank < ranks; ++rank) {
    for (const MicroBatch& micro : share_of(batch, micro_batch, rank, ranks)) {
      EXPECT_EQ(micro.index % ranks, rank);
      for (std::size_t i = 0; i < micro.samples.size(); ++i)
        by_index[static_cast<std::size_t>(micro.index * micro_batch) + i] = micro.samples[i];
    }
  }
  return by_index;
}

/// An interrupted run on 4, 2 and 1 ranks, each part a process of its own that knows nothing but
/// the checkpoint.
TEST(Sampler, AnEpochThatGoesOnWithOtherRanksHasEverySampleOnce) {
  const SamplerOptions options{.samples = 96, .batch = 8, .seed = 3};
  Indices seen;
  TrainerState checkpoint;
  Sampler(options).save(checkpoint, {});
  for (const int ranks : {4, 2, 1}) {
    Sampler sampler(options);
    sampler.load(checkpoint);
    for (int step = 0; step < 4; ++step) {
      const SampleBatch batch = sampler.next();
      sampler.save(checkpoint, batch.end);
      for (const std::int64_t sample : dealt(batch, 2, ranks)) seen.push_back(sample);
      sampler.next();  // fetched ahead, and lost with the process
      sampler.go_to(batch.end);
    }
  }
  EXPECT_EQ(sorted(seen), counted_to(96));
  EXPECT_NE(seen, counted_to(96));
  EXPECT_EQ(checkpoint.counters.at("sampler.epoch"), 0);
  EXPECT_EQ(checkpoint.counters.at("sampler.offset"), 96);
}

TEST(Sampler, GoesToAnyEpoch) {
  const SamplerOptions options{.samples = 9, .batch = 3, .seed = 2};
  Sampler whole(options), later(options);
  for (int i = 0; i < 3 * 4 + 1; ++i) whole.next();
  later.go_to({4, 3});
  EXPECT_EQ(whole.position(), later.position());
  EXPECT_EQ(whole.next().samples, later.next().samples);
}

TEST(Sampler, TheOrderDoesNotDependOnTheBatch) {
  Sampler small({.samples = 12, .batch = 3, .seed = 9}),
      large({.samples = 12, .batch = 6, .seed = 9});
  Indices one = small.next().samples;
  const Indices two = small.next().samples;
  one.insert(one.end(), two.begin(), two.end());
  EXPECT_EQ(one, large.next().samples);
}

TEST(Sampler, DropsWhatFillsNoBatchAndTakesOthersNextTime) {
  Sampler sampler({.samples = 7, .batch = 3, .seed = 1});
  Indices dropped;
  for (std::int64_t epoch = 0; epoch < 20; ++epoch) {
    Indices seen;
    for (int i = 0; i < 2; ++i) {
      const SampleBatch batch = sampler.next();
      EXPECT_EQ(batch.begin, (SamplerPosition{epoch, 3 * i}));
      EXPECT_EQ(batch.padding, 0);
      seen.insert(seen.end(), batch.samples.begin(), batch.samples.end());
    }
    Indices missing, all = counted_to(7);
    const Indices in_order = sorted(seen);
    std::set_difference(all.begin(), all.end(), in_order.begin(), in_order.end(),
                        std::back_inserter(missing));
    ASSERT_EQ(missing.size(), 1u);
    dropped.push_back(missing[0]);
  }
  EXPECT_NE(std::adjacent_find(dropped.begin(), dropped.end(), std::not_equal_to<>()),
            dropped.end());
}

TEST(Sampler, PadsTheLastBatchWithTheEpochsFirst) {
  Sampler sampler({.samples = 5, .batch = 3, .shuffle = false, .last = LastBatch::kPad});
  EXPECT_THAT(sampler.next().samples, ElementsAre(0, 1, 2));
  const SampleBatch last = sampler.next();
  EXPECT_THAT(last.samples, ElementsAre(3, 4, 0));
  EXPECT_EQ(last.padding, 1);
  const SampleBatch next = sampler.next();
  EXPECT_THAT(next.samples, ElementsAre(0, 1, 2));
  EXPECT_EQ(next.begin, (SamplerPosition{1, 0}));
  Sampler wide({.samples = 2, .batch = 5, .shuffle = false, .last = LastBatch::kPad});
  EXPECT_THAT(wide.next().samples, ElementsAre(0, 1, 0, 1, 0));
}

TEST(Sampler, RunsOnIntoTheNextEpoch) {
  Sampler sampler({.samples = 3, .batch = 4, .seed = 2, .last = LastBatch::kRunOn});
  std::map<std::int64_t, int> times;
  for (int i = 0; i < 3; ++i) {
    for (const std::int64_t sample : sampler.next().samples) ++times[sample];
  }
  EXPECT_THAT(times, ElementsAre(std::pair(0, 4), std::pair(1, 4), std::pair(2, 4)));
  EXPECT_EQ(sampler.position(), (SamplerPosition{3, 3}));
}

TEST(Sampler, WhatDoesNotFitIsRefusedAndThePositionStays) {
  Sampler sampler({.samples = 10, .batch = 2, .seed = 4});
  sampler.next();
  TrainerState good;
  sampler.save(good, sampler.position());
  const auto refused = [&](const char* key, std::optional<std::int64_t> value) {
    TrainerState state = good;
    state.counters.erase(key);
    if (value) state.counters[key] = *value;
    const std::string message = thrown<ContractError>([&] { sampler.load(state); });
    EXPECT_EQ(sampler.position(), (SamplerPosition{0, 2}));
    return message;
  };
  EXPECT_THAT(refused("sampler.samples", 11), HasSubstr("sampler.samples is 10, was 11"));
  EXPECT_THAT(refused("sampler.seed", 5), HasSubstr("sampler.seed is 4, was 5"));
  EXPECT_THAT(refused("sampler.shuffle", 0), HasSubstr("sampler.shuffle is 1, was 0"));
  EXPECT_THAT(refused("sampler.offset", {}), HasSubstr("no such counter"));
  EXPECT_THAT(refused("sampler.offset", 11), HasSubstr("offset 11, samples 10"));
  EXPECT_THAT(refused("sampler.epoch", -1), HasSubstr("epoch -1"));
  sampler.load(good);
  EXPECT_THAT(thrown<ContractError>([] { Sampler({.samples = 3, .batch = 4}); }),
              HasSubstr("would be dropped each epoch"));
  EXPECT_THAT(thrown<ContractError>([] { Sampler({.samples = 0, .batch = 4}); }),
              HasSubstr("samples must be"));
  EXPECT_THAT(thrown<ContractError>([] { Sampler({.samples = 3}); }), HasSubstr("batch must be"));
}

TEST(Sampler, SharesMustBeEqual) {
  Sampler sampler({.samples = 12, .batch = 12});
  const SampleBatch batch = sampler.next();
  EXPECT_EQ(share_of(batch, 3, 1, 2).size(), 2u);
  EXPECT_THAT(thrown<ContractError>([&] { share_of(batch, 5, 0, 1); }), HasSubstr("multiple"));
  EXPECT_THAT(thrown<ContractError>([&] { share_of(batch, 4, 0, 2); }),
              HasSubstr("batch 12, micro_batch 4, ranks 2"));
  EXPECT_THAT(thrown<ContractError>([&] { share_of(batch, 4, 3, 3); }), HasSubstr("3 of 3"));
}

}  // namespace
}  // namespace zero
