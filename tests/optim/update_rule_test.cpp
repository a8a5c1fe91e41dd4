/// What holds for every update rule, whatever its formulas.

#include <gmock/gmock.h>

#include "checkpoint/file_system.h"
#include "checkpoint/tools/diff.h"
#include "checkpoint/tools/export.h"
#include "checkpoint/tools/reshard.h"
#include "libzero/optim/checkpoints_on_disk.h"
#include "tests/offload/offload_support.h"
#include "tests/optim/checkpoint_support.h"

namespace zero::testing {
namespace {

using checkpoint::make_memory_store;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::int64_t kStop = 3;
constexpr std::int64_t kEnd = kStop + 2;

class EveryRule : public ::testing::TestWithParam<std::tuple<RuleCase, torch::Dtype>> {
 protected:
  static RuleCase rule() { return std::get<0>(GetParam()); }
  static torch::Dtype dtype() { return std::get<1>(GetParam()); }
  /// Other values everywhere: what a load must overwrite.
  static JobOptions other(int stage) {
    return {.stage = stage, .dtype = dtype(), .seed = 5, .lr = 0.5, .rule = rule()};
  }
};
/// In 16 bits, too, those that have something of their own there.
std::vector<std::tuple<RuleCase, torch::Dtype>> cases() {
  std::vector<std::tuple<RuleCase, torch::Dtype>> cases;
  for (const RuleCase& rule : all_rules()) {
    cases.emplace_back(rule, torch::kFloat);
    if (!rule.in_every_precision) continue;
    cases.emplace_back(rule, torch::kBFloat16);
    cases.emplace_back(rule, torch::kHalf);
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(, EveryRule, ::testing::ValuesIn(cases()), [](const auto& test) {
  return std::get<0>(test.param).name + c10::toString(std::get<1>(test.param));
});

TEST_P(EveryRule, HasTheSameBitsAtEveryStageAndWorld) {
  const Image& expected = twin_image(dtype(), kEnd, rule());
  for (const int world_size : {1, 2, 4}) {
    for (const int stage : {0, 1, 2}) {
      SCOPED_TRACE("stage " + std::to_string(stage) + " world " + std::to_string(world_size));
      on_jobs(world_size, {.stage = stage, .dtype = dtype(), .rule = rule()}, [&](Job& job) {
        job.train(kEnd);
        EXPECT_EQ(first_difference(expected, job.image()), "");
      });
    }
  }
}

TEST_P(EveryRule, MovesTheWeights) {
  EXPECT_NE(twin_image(dtype(), kEnd, rule()).at("master embedding"),
            twin_image(dtype(), 0, rule()).at("master embedding"));
}

TEST_P(EveryRule, OnADiskHasTheSameBits) {
  const TemporaryFolder folder;
  for (const int stage : {0, 2}) {
    JobOptions options = offloaded(folder, stage, dtype());
    options.rule = rule();
    const auto store = make_memory_store();
    on_jobs(2, options, [&](Job& job) {
      job.train(kStop);
      job.optimizer->save(*store);
      job.train(kEnd);
      job.optimizer->load(*store, kStop);
      job.train(kEnd);
      EXPECT_EQ(first_difference(twin_image(dtype(), kEnd, rule()), job.image()), "");
    });
  }
}

TEST_P(EveryRule, ResumesAsTheUninterruptedTwinAtEveryWorldAndStage) {
  for (const int saved_world : {1, 3}) {
    const auto store = make_memory_store();
    on_jobs(saved_world, {.stage = saved_world % 3, .dtype = dtype(), .rule = rule()},
            [&](Job& job) {
              job.train(kStop);
              job.optimizer->save(*store);
            });
    for (const int world : {1, 2, 4}) {
      SCOPED_TRACE(std::to_string(saved_world) + " -> " + std::to_string(world) + " ranks");
      on_jobs(world, other((saved_world + world) % 3), [&](Job& job) {
        job.optimizer->load(*store, kStop, LoadOptions().reshard_on_load(true));
        EXPECT_EQ(first_difference(twin_image(dtype(), kStop, rule()), job.image()), "");
        job.train(kEnd);
        EXPECT_EQ(first_difference(twin_image(dtype(), kEnd, rule()), job.image()), "");
      });
    }
  }
}

/// Through files, resharded by the tool, which sees no rule.
TEST_P(EveryRule, ItsCheckpointsAreReshardedComparedAndExportedByTheTools) {
  const TemporaryFolder folder;
  const std::string two = folder / "two", three = folder / "three", file = folder / "m.safetensors";
  on_jobs(2, {.dtype = dtype(), .rule = rule()}, [&](Job& job) {
    job.train(kStop);
    job.optimizer->save(two);
  });
  const auto source = open_store(two)->open(kStop);
  const auto digests = checkpoint::reshard(*source, *open_store(three), {.world_size = 3}).digests;
  EXPECT_EQ(digests.count("exp_avg") + digests.count("exp_avg_sq") +
                digests.count("momentum_buffer") + digests.count("ema"),
            rule().kept.size());
  for (const StateKind kind : rule().kept) EXPECT_TRUE(digests.contains(name_of(kind)));
  EXPECT_THAT(checkpoint::diff(*source, *open_store(three)->open(kStop)), IsEmpty());
  checkpoint::export_parameters(*source, *checkpoint::on_disk(), file, {});
  EXPECT_GT(std::filesystem::file_size(file), 0u);
  on_jobs(3, other(1), [&](Job& job) {
    const LoadReport report = job.optimizer->load(three);
    job.train(kEnd);
    EXPECT_EQ(first_difference(twin_image(dtype(), kEnd, rule()), job.image()), "");
    for (const StateKind kind : rule().kept) EXPECT_THAT(to_text(report), HasSubstr(name_of(kind)));
  });
}

TEST_P(EveryRule, MemoryCountsWhatItKeepsAndNothingElse) {
  on_jobs(2, {.stage = 1, .dtype = dtype(), .rule = rule()}, [&](Job& job) {
    MemoryReport report = job.optimizer->memory();
    std::int64_t kept = 0;
    for (const StateKind kind : rule().kept) {
      EXPECT_EQ(bytes_of(report, kind), report.accumulator) << name_of(kind);
      kept += bytes_of(report, kind);
    }
    EXPECT_EQ(report.exp_avg + report.exp_avg_sq + report.momentum_buffer + report.ema, kept);
    EXPECT_EQ(report.by_formula(),
              report.parameters + report.gradients + report.accumulator + report.master + kept);
  });
}

}  // namespace
}  // namespace zero::testing
