/// Offloaded or not: the same bits.

#include "tests/offload/offload_support.h"

namespace zero::testing {
namespace {

constexpr std::int64_t kSteps = 4;

class OffloadTrainingTest : public ::testing::TestWithParam<torch::Dtype> {};
INSTANTIATE_TEST_SUITE_P(EveryPrecision, OffloadTrainingTest,
                         ::testing::Values(torch::kFloat, torch::kBFloat16, torch::kHalf),
                         [](const auto& test) { return std::string(c10::toString(test.param)); });

TEST_P(OffloadTrainingTest, TheBitsAreTheSameAtEveryStageAndWorld) {
  const TemporaryFolder folder;
  const Image& expected = twin_image(GetParam(), kSteps);
  for (const int world_size : {1, 2, 4}) {
    for (const int stage : {0, 1, 2}) {
      SCOPED_TRACE("stage " + std::to_string(stage) + " world " + std::to_string(world_size));
      on_jobs(world_size, offloaded(folder, stage, GetParam()), [&](Job& job) {
        EXPECT_GT(job.optimizer->memory().offloaded, 0);
        job.train(kSteps);
        EXPECT_EQ(first_difference(expected, job.image()), "");
      });
      EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
    }
  }
}

TEST_P(OffloadTrainingTest, HugeParametersInPiecesHaveTheSameBits) {
  const TemporaryFolder folder;
  const Image& expected = twin_image(GetParam(), kSteps);
  for (const int stage : {0, 2}) {
    JobOptions options = offloaded(folder, stage, GetParam());
    options.bucket_bytes = 8'000;
    on_jobs(2, options, [&](Job& job) {
      job.train(kSteps);
      EXPECT_EQ(first_difference(expected, job.image()), "");
    });
  }
}

/// What reads and writes state between backward() and step(), when the first blocks are there.
TEST_P(OffloadTrainingTest, WhatHappensInAWindowLeavesNoTrace) {
  const TemporaryFolder folder;
  const Image& expected = twin_image(GetParam(), kSteps);
  for (const int stage : {0, 2}) {
    on_jobs(2, offloaded(folder, stage, GetParam()), [&](Job& job) {
      job.train(2);
      job.optimizer->backward(job.model->loss(toy_batch(77, 1)));
      const auto moment = job.optimizer->gather("embedding", StateKind::kExpAvg);
      job.optimizer->for_each_shard(StateKind::kExpAvg, [](const ShardView& view) {
        for (float& value : view.values) value = -value, value = -value;
      });
      job.optimizer->zero_grad();
      job.train(kSteps);
      EXPECT_EQ(first_difference(expected, job.image()), "");
    });
  }
}

TEST(OffloadTraining, AVisitorSeesEveryElementOfItsShardAndWhatItWritesStays) {
  const TemporaryFolder folder;
  on_jobs(2, offloaded(folder, 2, torch::kBFloat16), [&](Job& job) {
    job.train(1);
    for (const StateKind kind : {StateKind::kMaster, StateKind::kExpAvg, StateKind::kExpAvgSq}) {
      std::int64_t seen = 0;
      job.optimizer->for_each_shard(kind, [&](const ShardView& view) {
        ASSERT_EQ(view.end - view.begin, static_cast<std::int64_t>(view.values.size()));
        seen += view.end - view.begin;
        for (std::int64_t i = view.begin; i < view.end; ++i)
          view.values[static_cast<std::size_t>(i - view.begin)] = static_cast<float>(i % 1000);
      });
      EXPECT_GT(seen, 0);
      const auto whole = job.optimizer->gather("embedding", kind);
      EXPECT_TRUE(
          torch::equal(whole.flatten(), torch::arange(whole.numel(), torch::kFloat) % 1000));
    }
  });
}

TEST(OffloadTraining, MastersFollowParametersThatSomebodyWrote) {
  const TemporaryFolder folder;
  on_jobs(2, offloaded(folder, 2, torch::kBFloat16), [&](Job& job) {
    job.train(1);
    {
      const torch::NoGradGuard no_grad;
      job.model->embedding.fill_(0.375f);
    }
    job.optimizer->refresh_masters();
    const auto master = job.optimizer->gather("embedding", StateKind::kMaster);
    EXPECT_TRUE(torch::equal(master, torch::full_like(master, 0.375f)));
  });
}

TEST(OffloadTraining, MemoryHoldsARingInsteadOfTheState) {
  const TemporaryFolder folder;
  MemoryReport in_memory, on_disk;
  on_jobs(1, {.dtype = torch::kBFloat16}, [&](Job& job) { in_memory = job.optimizer->memory(); });
  on_jobs(1, offloaded(folder, 2, torch::kBFloat16), [&](Job& job) {
    on_disk = job.optimizer->memory();
    job.train(2);
    EXPECT_EQ(job.optimizer->memory().total(), on_disk.total()) << "what is held does not grow";
  });
  EXPECT_EQ(on_disk.master + on_disk.exp_avg + on_disk.exp_avg_sq, 0);
  EXPECT_GE(on_disk.offloaded, in_memory.master + in_memory.exp_avg + in_memory.exp_avg_sq);
  EXPECT_EQ(on_disk.accumulator, in_memory.accumulator);
  EXPECT_EQ(in_memory.offload_ring, 0);
  const std::int64_t ring = 3 * 3 * 4096 + 4096;
  EXPECT_GE(on_disk.offload_ring, ring);
  EXPECT_LT(on_disk.offload_ring, ring + 64 * 100);
}

TEST(OffloadTraining, TheHostIsWhereTheStateOfACpuIsAnyway) {
  const Image& expected = twin_image(torch::kFloat, kSteps);
  JobOptions options;
  options.configure = [](Options& o) { o.offload(Offload::kHost); };
  on_jobs(2, options, [&](Job& job) {
    job.train(kSteps);
    EXPECT_EQ(first_difference(expected, job.image()), "");
    EXPECT_EQ(job.optimizer->memory().offloaded, 0);
  });
}

TEST(OffloadTraining, OneRankAloneOffloadingIsADifference) {
  const TemporaryFolder folder;
  const auto errors = errors_on_ranks(2, [&](const Comm& comm) {
    Options options = tiny_options(2);
    if (comm->rank() == 1) options.offload(Offload::kDisk(folder.path()));
    Trainee trainee(comm, options);
  });
  for (const std::string& error : errors) EXPECT_THAT(error, ::testing::HasSubstr("offload"));
}

TEST(OffloadTraining, OptionsOutOfRangeAreNamed) {
  const TemporaryFolder folder;
  const auto refused = [](const Offload& offload) {
    return errors_on_ranks(
               1,
               [&](const Comm& comm) { Trainee trainee(comm, tiny_options(2).offload(offload)); })
        .front();
  };
  EXPECT_THAT(refused(Offload::kDisk("")), ::testing::HasSubstr("name of a folder"));
  for (const OffloadSize size : {OffloadSize{0, 1, 1}, {1, 0, 1}, {1, 1, 0}, {1, 1, 257}}) {
    EXPECT_THAT(refused(Offload::kDisk(folder.path()).size(size)),
                ::testing::HasSubstr("1 to 256 threads"));
  }
}

}  // namespace
}  // namespace zero::testing
