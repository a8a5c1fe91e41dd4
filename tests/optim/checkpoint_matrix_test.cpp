/// Any world, stage, precision and layout saves; any other reloads the same bytes.

#include <random>

#include "tests/optim/checkpoint_support.h"

namespace zero::testing {
namespace {

using checkpoint::make_memory_store;

constexpr std::int64_t kSteps = 2;

struct Place {
  int world_size;
  int stage;
  std::int64_t bucket_bytes;
  std::string text() const {
    return std::to_string(world_size) + " ranks, stage " + std::to_string(stage) + ", buckets of " +
           std::to_string(bucket_bytes);
  }
};

/// Draws from every place, the same on every library.
class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}
  Place operator()() {
    constexpr std::int64_t kBucketBytes[] = {1'000, 50'000, std::int64_t{25} << 20};
    return {below(4) + 1, below(3), kBucketBytes[below(3)]};
  }

 private:
  int below(unsigned n) { return static_cast<int>(random_() % n); }
  std::mt19937 random_;
};

void on_place(const Place& place, torch::Dtype dtype, int seed,
              const std::function<void(Job&)>& function) {
  JobOptions options{.stage = place.stage, .dtype = dtype, .seed = seed};
  options.bucket_bytes = place.bucket_bytes;
  on_jobs(place.world_size, options, function);
}

class MatrixTest : public ::testing::TestWithParam<torch::Dtype> {};
INSTANTIATE_TEST_SUITE_P(EveryPrecision, MatrixTest,
                         ::testing::Values(torch::kFloat, torch::kBFloat16, torch::kHalf),
                         [](const auto& test) { return std::string(c10::toString(test.param)); });

TEST_P(MatrixTest, WhateverSavesWhateverReloadsHoldsTheSameBytes) {
  const auto dtype = GetParam();
  const Image& expected = twin_image(dtype, kSteps);
  constexpr int kSaves = 8, kLoads = 4;
  for (unsigned seed = 0; seed < kSaves; ++seed) {
    Draw draw(1 + seed + 1000 * static_cast<unsigned>(dtype));
    const Place saver = draw();
    const auto store = make_memory_store();
    on_place(saver, dtype, 0, [&](Job& job) {
      job.train(kSteps);
      job.optimizer->save(*store);
    });
    for (int i = 0; i < kLoads; ++i) {
      const Place loader = draw();
      SCOPED_TRACE(saver.text() + " -> " + loader.text());
      on_place(loader, dtype, 3, [&](Job& job) {
        job.optimizer->load(*store, kSteps, LoadOptions().reshard_on_load(true));
        EXPECT_EQ(first_difference(expected, job.image()), "");
      });
    }
  }
}

/// What was reloaded and is saved again is the same checkpoint, over any chain of worlds.
TEST_P(MatrixTest, AChainOfReloadsAndSavesLosesNothing) {
  const auto dtype = GetParam();
  Draw draw(77 + static_cast<unsigned>(dtype));
  auto store = make_memory_store();
  on_place(draw(), dtype, 0, [&](Job& job) {
    job.train(kSteps);
    job.optimizer->save(*store);
  });
  for (int i = 0; i < 8; ++i) {
    const Place place = draw();
    SCOPED_TRACE("link " + std::to_string(i) + ": " + place.text());
    auto next = make_memory_store();
    on_place(place, dtype, i + 1, [&](Job& job) {
      job.optimizer->load(*store, kSteps, LoadOptions().reshard_on_load(true));
      job.optimizer->save(*next);
      EXPECT_EQ(first_difference(twin_image(dtype, kSteps), job.image()), "");
    });
    store = std::move(next);
  }
}

}  // namespace
}  // namespace zero::testing
