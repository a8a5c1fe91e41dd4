/// Saved, thrown away, built anew from other values, loaded: the same bits, now and later.

#include "tests/optim/checkpoint_support.h"

namespace zero::testing {
namespace {

using checkpoint::make_memory_store;
using checkpoint::Store;

constexpr std::int64_t kStop = 4;
constexpr std::int64_t kEnd = kStop + 3;

LoadOptions any_world() {
  return LoadOptions().reshard_on_load(true);
}

JobOptions other(JobOptions job) {
  job.seed = 5;
  job.lr = 0.5;
  return job;
}

class ResumeTest : public ::testing::TestWithParam<torch::Dtype> {};
INSTANTIATE_TEST_SUITE_P(EveryPrecision, ResumeTest,
                         ::testing::Values(torch::kFloat, torch::kBFloat16, torch::kHalf),
                         [](const auto& test) { return std::string(c10::toString(test.param)); });

TEST_P(ResumeTest, IsTheUninterruptedTwinAtEveryPairOfWorlds) {
  for (const int saved_world : {1, 2, 3, 4}) {
    const auto store = make_memory_store();
    on_jobs(saved_world, {.stage = saved_world % 3, .dtype = GetParam()}, [&](Job& job) {
      job.train(kStop);
      job.optimizer->save(*store);
      EXPECT_EQ(first_difference(twin_image(GetParam(), kStop), job.image()), "");
    });
    for (const int world : {1, 2, 3, 4}) {
      SCOPED_TRACE(std::to_string(saved_world) + " -> " + std::to_string(world) + " ranks");
      const JobOptions loader{.stage = (saved_world + world) % 3, .dtype = GetParam()};
      on_jobs(world, other(loader), [&](Job& job) {
        const LoadReport report =
            job.optimizer->load(*store, kStop, world == saved_world ? LoadOptions() : any_world());
        EXPECT_TRUE(report.found);
        EXPECT_EQ(report.saved_world_size, saved_world);
        EXPECT_EQ(first_difference(twin_image(GetParam(), kStop), job.image()), "");
        job.train(kEnd);
        EXPECT_EQ(first_difference(twin_image(GetParam(), kEnd), job.image()), "");
      });
    }
  }
}

TEST_P(ResumeTest, StopsWhereStepsWereTakenAndInFloat16SkippedToo) {
  const bool skips = GetParam() == torch::kHalf;
  EXPECT_EQ(twin_image(GetParam(), kStop).at("steps"), skips ? "4 1" : "4 4");
  EXPECT_EQ(twin_image(GetParam(), kEnd).at("steps"), skips ? "7 2" : "7 7");
}

TEST_P(ResumeTest, IsTheUninterruptedTwinAtEveryPairOfStages) {
  for (const int saved_stage : {0, 1, 2}) {
    const auto store = make_memory_store();
    on_jobs(2, {.stage = saved_stage, .dtype = GetParam()}, [&](Job& job) {
      job.train(kStop);
      job.optimizer->save(*store);
    });
    for (const int stage : {0, 1, 2}) {
      SCOPED_TRACE("stage " + std::to_string(saved_stage) + " -> " + std::to_string(stage));
      on_jobs(2, other({.stage = stage, .dtype = GetParam()}), [&](Job& job) {
        job.optimizer->load(*store, kStop);
        job.train(kEnd);
        EXPECT_EQ(first_difference(twin_image(GetParam(), kEnd), job.image()), "");
      });
    }
  }
}

TEST_P(ResumeTest, IsTheUninterruptedTwinThroughFiles) {
  const TemporaryFolder folder;
  const std::string root = folder / "run";
  on_jobs(3, {.stage = 1, .dtype = GetParam()}, [&](Job& job) {
    job.train(kStop - 1);
    job.optimizer->save(root);
    job.train(kStop);
    job.optimizer->save(root);
  });
  for (const int world : {3, 4}) {
    on_jobs(world, other({.stage = 2, .dtype = GetParam()}), [&](Job& job) {
      const LoadReport report = job.optimizer->load(root, any_world());
      EXPECT_EQ(report.directory, root + "/step_000000000004");
      job.train(kEnd);
      EXPECT_EQ(first_difference(twin_image(GetParam(), kEnd), job.image()), "");
    });
  }
}

}  // namespace
}  // namespace zero::testing
