/// Checkpoints of offloaded state.

#include "libzero/train/checkpointer.h"
#include "tests/offload/offload_support.h"

namespace zero::testing {
namespace {

using checkpoint::make_memory_store;

class OffloadCheckpointTest : public ::testing::TestWithParam<torch::Dtype> {};
INSTANTIATE_TEST_SUITE_P(EveryPrecision, OffloadCheckpointTest,
                         ::testing::Values(torch::kFloat, torch::kBFloat16, torch::kHalf),
                         [](const auto& test) { return std::string(c10::toString(test.param)); });

TEST_P(OffloadCheckpointTest, ItMakesNoDifferenceToACheckpointWhereStateLies) {
  const TemporaryFolder folder;
  const auto dtype = GetParam();
  for (const auto& [saves, loads] : {std::pair{true, false}, {false, true}, {true, true}}) {
    for (const auto& [world, stage] : {std::pair{2, 2}, {4, 1}, {1, 0}, {2, 0}}) {
      SCOPED_TRACE("saves " + std::to_string(saves) + " loads " + std::to_string(loads) +
                   " world " + std::to_string(world) + " stage " + std::to_string(stage));
      const auto store = make_memory_store();
      const auto place = [&, at = stage](bool offload) {
        return offload ? offloaded(folder, at, dtype) : JobOptions{.stage = at, .dtype = dtype};
      };
      on_jobs(2, place(saves), [&](Job& job) {
        job.train(2);
        job.optimizer->save(*store);
      });
      JobOptions other = place(loads);
      other.seed = 3;
      on_jobs(world, other, [&](Job& job) {
        job.train(1);
        job.optimizer->load(*store, 2, LoadOptions().reshard_on_load(true));
        EXPECT_EQ(first_difference(twin_image(dtype, 2), job.image()), "");
      });
    }
  }
}

TEST_P(OffloadCheckpointTest, AResumedRunGoesOnWithTheSameBits) {
  const TemporaryFolder folder, roots;
  const auto dtype = GetParam();
  for (const bool async : {false, true}) {
    const std::string root = roots / (async ? "async" : "sync");
    const CheckpointOptions options = CheckpointOptions().async(async);
    on_jobs(2, offloaded(folder, 2, dtype), [&](Job& job) {
      Checkpointer checkpoints(*job.optimizer, root, options);
      job.train(2);
      checkpoints.save();
      job.train(3);
      checkpoints.finish();
    });
    on_jobs(2, offloaded(folder, 2, dtype), [&](Job& job) {
      Checkpointer checkpoints(*job.optimizer, root, options);
      const LoadReport report = checkpoints.resume();
      EXPECT_EQ(report.step, 2);
      job.train(4);
      EXPECT_EQ(first_difference(twin_image(dtype, 4), job.image()), "");
    });
  }
}

/// A load needs a second file while it runs: without room for it nothing has happened.
TEST_P(OffloadCheckpointTest, ALoadThatFindsNoRoomChangesNothing) {
  const TemporaryFolder folder;
  const auto dtype = GetParam();
  const auto store = make_memory_store();
  const auto calls = std::make_shared<DisturbedCalls>();
  JobOptions options = offloaded(folder, 2, dtype);
  options.configure = [&](Options& o) { o.offload(in_small_blocks(folder).calls(calls)); };
  on_jobs(2, options, [&](Job& job) {
    job.train(1);
    job.optimizer->save(*store);
    job.train(2);
    job.comm_->barrier("both are here")->wait();
    calls->on_allocate = [] { return ENOSPC; };
    EXPECT_THAT(thrown<IoError>([&] { job.optimizer->load(*store, 1); }),
                ::testing::HasSubstr("No space left"));
    job.comm_->barrier("both are here")->wait();
    job.train(3);
    EXPECT_EQ(first_difference(twin_image(dtype, 3), job.image()), "");
  });
}

TEST(OffloadCheckpoint, AReadThatFailsInASaveIsNoCheckpointOnAnyRankAndTrainingGoesOn) {
  const TemporaryFolder folder;
  const auto store = make_memory_store();
  const auto calls = std::make_shared<DisturbedCalls>();
  JobOptions options = offloaded(folder);
  options.configure = [&](Options& o) { o.offload(in_small_blocks(folder).calls(calls)); };
  on_jobs(2, options, [&](Job& job) {
    job.train(2);
    job.comm_->barrier("both are here")->wait();
    calls->on_pread = [](int, void*, std::size_t, off_t) { return DisturbedCalls::fail(EIO); };
    EXPECT_THAT(thrown<IoError>([&] { job.optimizer->save(*store); }),
                ::testing::HasSubstr("libzero-offload-rank-"));
    job.comm_->barrier("both are here")->wait();
    if (job.comm_->rank() == 0) calls->on_pread = nullptr;
    job.comm_->barrier("both are here")->wait();
    EXPECT_TRUE(store->list().steps.empty());
    job.train(3);
    job.optimizer->save(*store);
    EXPECT_EQ(first_difference(twin_image(torch::kFloat, 3), job.image()), "");
  });
}

}  // namespace
}  // namespace zero::testing
