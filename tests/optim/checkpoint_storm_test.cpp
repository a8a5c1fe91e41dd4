/// Trainings that are stopped and resumed at random, against a twin that ran through.

#include <random>

#include "tests/optim/checkpoint_support.h"

namespace zero::testing {
namespace {

constexpr std::int64_t kEnd = 12;

struct Life {
  std::int64_t until;
  int world_size;
  int stage;
  bool saves_at_end;  ///< false: killed after its last save, what came then is lost
};

std::vector<Life> lives_of(unsigned seed) {
  std::mt19937 random(seed);
  const auto pick = [&](std::int64_t from, std::int64_t to) {  // the same on every library
    return from + static_cast<std::int64_t>(random() % static_cast<unsigned>(to - from + 1));
  };
  constexpr int kWorlds[] = {1, 2, 3, 4};
  std::vector<Life> lives;
  for (std::int64_t step = 0; step < kEnd;) {
    const std::int64_t until = std::min(kEnd, step + pick(1, 4));
    const bool saves = until == kEnd || pick(0, 3) > 0;
    lives.push_back({until, kWorlds[pick(0, 3)], static_cast<int>(pick(0, 2)), saves});
    if (saves) step = until;
  }
  return lives;
}

class StormTest : public ::testing::TestWithParam<std::tuple<unsigned, torch::Dtype>> {};
INSTANTIATE_TEST_SUITE_P(Seeds, StormTest,
                         ::testing::Values(std::tuple(1u, torch::kFloat),
                                           std::tuple(2u, torch::kFloat),
                                           std::tuple(3u, torch::kBFloat16),
                                           std::tuple(4u, torch::kHalf)));

TEST_P(StormTest, EndsWithTheTwinsBitsAndLosses) {
  const auto [seed, dtype] = GetParam();
  std::vector<std::string> straight;
  Image expected;
  on_jobs(1, {.dtype = dtype}, [&, type = dtype](Job& job) {
    job.train(kEnd);
    straight = job.losses;
    expected = job.image();
    (void)type;
  });
  const TemporaryFolder folder;
  const std::string root = folder / "run";
  std::map<std::int64_t, std::string> losses;
  int born = 0;
  for (const Life& life : lives_of(seed)) {
    SCOPED_TRACE("life " + std::to_string(born) + " until " + std::to_string(life.until) + " on " +
                 std::to_string(life.world_size) + " ranks");
    on_jobs(life.world_size, {.stage = life.stage, .dtype = dtype, .seed = born++}, [&](Job& job) {
      const LoadReport report = job.optimizer->load(root, LoadOptions().reshard_on_load(true));
      if (!report.found && born > 1) {  // a first life without a save: from the beginning
        const torch::NoGradGuard no_grad;
        const SavedModel fresh = make_model({.dtype = job.model->frozen.scalar_type()});
        const auto from = fresh->named_parameters(), to = job.model->named_parameters();
        for (const auto& item : from) to[item.key()].copy_(item.value());
        const auto buffers = fresh->named_buffers(), mine = job.model->named_buffers();
        for (const auto& item : buffers) mine[item.key()].copy_(item.value());
        job.optimizer->refresh_masters();
      }
      const std::int64_t begin = job.optimizer->steps_taken();
      job.train(life.until);
      if (job.comm_->rank() == 0) {
        for (std::size_t i = 0; i < job.losses.size(); ++i)
          losses[begin + static_cast<std::int64_t>(i)] = job.losses[i];
      }
      if (life.saves_at_end) job.optimizer->save(root);
      if (life.until == kEnd) {
        EXPECT_EQ(first_difference(expected, job.image()), "");
      }
    });
  }
  for (std::int64_t step = 0; step < kEnd; ++step)
    EXPECT_EQ(losses[step], straight[static_cast<std::size_t>(step)]) << "step " << step;
}

/// LibTorch's generator belongs to the process, so that only a world of one can be compared.
TEST(StormTest, OfOneRankDrawsTheTwinsRandomNumbers) {
  const auto window = [](Job& job, std::string& drawn) {
    drawn += bytes_of(torch::randn({3}));
    job.train(job.optimizer->steps_taken() + 1);
    drawn += bytes_of(torch::rand({1}));
  };
  std::string straight;
  on_jobs(1, {}, [&](Job& job) {
    torch::manual_seed(3);
    for (std::int64_t step = 0; step < kEnd; ++step) window(job, straight);
  });
  const TemporaryFolder folder;
  std::string stopped;
  for (std::int64_t step = 0; step < kEnd; ++step) {
    on_jobs(1, {.seed = static_cast<int>(step)}, [&](Job& job) {
      torch::manual_seed(step == 0 ? 3 : 1000 + step);
      EXPECT_EQ(job.optimizer->load(folder / "run").found, step > 0);
      window(job, stopped);
      job.optimizer->save(folder / "run");
    });
  }
  EXPECT_EQ(stopped, straight);
}

}  // namespace
}  // namespace zero::testing
