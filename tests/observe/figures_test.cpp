// Where a step's time goes, which rank is late, and what Prometheus sees of it.

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <regex>
#include <sstream>

#include "libzero/base/error.h"
#include "libzero/observe/late_rank.h"
#include "libzero/observe/metrics.h"
#include "libzero/observe/observers.h"
#include "libzero/observe/step_meter.h"
#include "tests/observe/made_spans.h"

namespace zero::observe {
namespace {

using testing::feed_step;
using ::testing::HasSubstr;
using testing::two_buckets;

TEST(StepMeter, SplitsAStepIntoPartsThatAddUp) {
  StepMeter meter;
  meter.begin(two_buckets(0, 2));
  for (int i = 0; i < 3; ++i) {
    feed_step(meter, 0);
    const StepTimes& times = meter.last();
    EXPECT_DOUBLE_EQ(times.forward, 1e-6);
    EXPECT_DOUBLE_EQ(times.backward, 3e-6);
    EXPECT_DOUBLE_EQ(times.wait, 0.9e-6 + 0.5e-6 + 0.5e-6);
    EXPECT_DOUBLE_EQ(times.update, 1.5e-6);
    EXPECT_NEAR(times.total,
                times.forward + times.backward + times.wait + times.update + times.other, 1e-12);
    EXPECT_DOUBLE_EQ(times.reduce, 2e-6);
    EXPECT_DOUBLE_EQ(times.gather, 1e-6);
    EXPECT_DOUBLE_EQ(times.buckets[1].reduce, 1e-6);
    EXPECT_EQ(times.buckets[0].reduce_bytes, 800);
    EXPECT_EQ(times.buckets[0].gather_bytes, 400);
  }
}

TEST(StepMeter, CountsUpdatesOfTheOtherThreadAsUpdateNotAsWait) {
  StepMeter meter;
  meter.begin(two_buckets(0, 2, /*stage=*/0));
  meter.observe({Activity::kUpdate, Lane::kCommunication, 0, 0, 0, 700});
  meter.observe({Activity::kGatherWait, Lane::kTraining, -1, 0, 0, 1000});
  meter.step_ended({});
  EXPECT_DOUBLE_EQ(meter.last().update, 7e-7);
  EXPECT_DOUBLE_EQ(meter.last().wait, 3e-7);
}

std::optional<Lateness> lateness_of(std::vector<Nanoseconds> times, LateRankOptions options) {
  LateRank late(options);
  late.begin(two_buckets(0, static_cast<int>(times.size())));
  for (std::int64_t i = 0; i < options.every; ++i) {
    EXPECT_FALSE(late.take());
    late.collective_times(times);
    late.step_ended({});
  }
  return late.take();
}

TEST(LateRank, NamesTheOneThatWaitsLeastAndTheOneThatWaitsMost) {
  const auto found =
      lateness_of({30'000'000, 1'000'000, 20'000'000, 42'000'000}, {.every = 5, .share = 0.1});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->late_rank, 1);
  EXPECT_EQ(found->waiting_rank, 3);
  EXPECT_NEAR(found->waited, 0.041, 1e-9);
  EXPECT_THAT(text_of(*found), HasSubstr("rank 3 waited for 41.0 ms a step on average over 5"));
  EXPECT_THAT(text_of(*found), HasSubstr("rank 1 is late"));
}

TEST(LateRank, IsSilentWhereNobodyWaitsOrIsThere) {
  EXPECT_FALSE(lateness_of({5, 5, 5}, {.every = 3}));
  EXPECT_FALSE(lateness_of({1'000'000'000}, {.every = 3}));
  EXPECT_FALSE(lateness_of({5, 6}, {.every = 3, .share = 1e9}));
  EXPECT_THROW(LateRank({.every = 0}), ContractError);
}

TEST(Observers, TellEveryOneEverything) {
  const auto a = std::make_shared<StepMeter>();
  const auto b = std::make_shared<LateRank>(LateRankOptions{.every = 1, .share = 0});
  Observers both({a, b});
  both.begin(two_buckets(0, 2));
  feed_step(both, 0);
  both.collective_times(std::vector<Nanoseconds>{5, 7});
  EXPECT_DOUBLE_EQ(a->last().forward, 1e-6);
  EXPECT_TRUE(b->take());
}

/// Every line is a comment or a sample, and every sample's family was declared.
void expect_well_formed(const std::string& page) {
  const std::regex sample(
      R"(([a-z_]+)\{[a-z]+="[^"\\]*"(,[a-z]+="[^"\\]*")*\} (NaN|[+-]Inf|-?[0-9.]+(e[+-]?[0-9]+)?))");
  const std::regex type("# TYPE ([a-z_]+) (counter|gauge)");
  std::istringstream lines(page);
  std::string declared;
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, type)) {
      declared = match[1];
      EXPECT_EQ(declared.ends_with("_total"), match[2] == "counter") << line;
    } else if (!line.starts_with("# HELP ")) {
      ASSERT_TRUE(std::regex_match(line, match, sample)) << line;
      EXPECT_EQ(match[1], declared);
    }
  }
}

TEST(Metrics, AddUpOverStepsInPrometheusFormat) {
  Metrics metrics;
  StepMeter meter;
  meter.begin(two_buckets(0, 2));
  feed_step(meter, 0);
  StepResult result;
  result.applied = true;
  result.step = 41;
  result.loss = 2.5;
  result.host_bytes = 5000;
  metrics.add(result, 0.25, &meter.last());
  EXPECT_THAT(metrics.text(3), ::testing::Not(HasSubstr("place=\"device\"")));
  result.device_bytes = 7000;
  result.applied = false;
  result.grad_norm = std::numeric_limits<double>::infinity();
  metrics.add(result, 0.5, &meter.last());
  const std::string page = metrics.text(3);
  expect_well_formed(page);
  EXPECT_TRUE(page.ends_with('\n'));
  for (const char* line :
       {"libzero_steps_total{rank=\"3\"} 2", "libzero_steps_skipped_total{rank=\"3\"} 1",
        "libzero_step_seconds_total{rank=\"3\"} 0.75", "libzero_loss{rank=\"3\"} 2.5",
        "libzero_gradient_norm{rank=\"3\"} +Inf", "libzero_applied_steps{rank=\"3\"} 41",
        "libzero_memory_bytes{rank=\"3\",place=\"host\"} 5000",
        "libzero_memory_bytes{rank=\"3\",place=\"device\"} 7000",
        "libzero_bucket_bytes_total{rank=\"3\",bucket=\"0\",work=\"reduce\"} 1600",
        "libzero_step_part_seconds_total{rank=\"3\",part=\"update\"} 3e-06"})
    EXPECT_THAT(page, HasSubstr(std::string(line) + "\n"));
}

}  // namespace
}  // namespace zero::observe
