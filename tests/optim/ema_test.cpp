/// The average of the weights: its numbers, what moves it, and the scope that shows it. (That its
/// bits depend on no stage, world, disk or resuming is demanded by update_rule_test.cpp.)

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include "tests/offload/offload_support.h"
#include "tests/optim/checkpoint_support.h"
#include "tests/optim/pull.h"

namespace zero::testing {
namespace {

using checkpoint::make_memory_store;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr float kWeight = 0.25f;  // 1 - averaged().ema

torch::Tensor average_of(Optimizer& optimizer, const std::string& name) {
  return optimizer.gather(name, StateKind::kEma);
}

class EmaOfRule : public ::testing::TestWithParam<RuleCase> {};
INSTANTIATE_TEST_SUITE_P(EveryRule, EmaOfRule,
                         ::testing::Values(RuleCase(), sgd_case(), momentum_case()),
                         [](const auto& test) { return test.param.name; });

TEST_P(EmaOfRule, FollowsTheMastersOfEveryAppliedStepToTheBitAndSleepsInSkippedOnes) {
  for (const auto dtype : {torch::kFloat, torch::kBFloat16, torch::kHalf}) {
    for (const int stage : {0, 2}) {
      SCOPED_TRACE(std::string(c10::toString(dtype)) + " stage " + std::to_string(stage));
      on_jobs(2, {.stage = stage, .dtype = dtype, .rule = averaged(GetParam())}, [&](Job& job) {
        auto expected = job.optimizer->gather("embedding", StateKind::kMaster);
        int skipped = 0;
        for (std::int64_t step = 1; step <= 8; ++step) {
          const std::int64_t applied = job.optimizer->steps_applied();
          job.train(step);
          if (job.optimizer->steps_applied() > applied) {
            const auto master = job.optimizer->gather("embedding", StateKind::kMaster);
            const auto difference = master - expected;  // one rounding an operation
            const auto part = difference * kWeight;
            expected = expected + part;
          } else {
            ++skipped;
          }
          EXPECT_TRUE(torch::equal(average_of(*job.optimizer, "embedding"), expected)) << step;
        }
        EXPECT_EQ(skipped > 0, dtype == torch::kHalf);
      });
    }
  }
}

/// Every trainable parameter is its average, rounded.
void expect_average_in_place(const SavedModel& model,
                             const std::map<std::string, torch::Tensor>& averages) {
  for (const auto& [name, average] : averages) {
    const auto& parameter = model->named_parameters()[name];
    EXPECT_TRUE(torch::equal(parameter.detach(), average.to(parameter.scalar_type()))) << name;
  }
}

std::map<std::string, torch::Tensor> averages_of(Job& job) {
  std::map<std::string, torch::Tensor> averages;
  for (const auto& item : job.model->named_parameters()) {
    if (item.value().requires_grad()) averages[item.key()] = average_of(*job.optimizer, item.key());
  }
  return averages;
}

TEST(EmaScope, ShowsTheAverageOnEveryRankAndPutsTheWeightsBackToTheBit) {
  const TemporaryFolder folder;
  for (const auto dtype : {torch::kFloat, torch::kBFloat16}) {
    for (const int stage : {0, 1, 2}) {
      for (const bool on_disk : {false, true}) {
        SCOPED_TRACE(std::string(c10::toString(dtype)) + " stage " + std::to_string(stage) +
                     (on_disk ? " on disk" : ""));
        JobOptions options{.stage = stage, .dtype = dtype};
        if (on_disk) options = offloaded(folder, stage, dtype);
        options.rule = averaged({});
        on_jobs(3, options, [&](Job& job) {
          job.train(3);
          const auto averages = averages_of(job);
          const Image before = job.image();
          const auto version = job.model->embedding._version();
          {
            const EmaScope scope = job.optimizer->ema_scope();
            expect_average_in_place(job.model, averages);
            EXPECT_GT(job.model->embedding._version(), version) << "autograd must know";
          }
          EXPECT_EQ(first_difference(before, job.image()), "");
          job.train(5);
          EXPECT_EQ(first_difference(twin_image(dtype, 5, averaged({})), job.image()), "");
        });
      }
    }
  }
}

/// In the middle of a window, too, whose gradients are of the weights.
TEST(EmaScope, AnExceptionPutsTheWeightsBackWithoutTheOtherRanks) {
  on_jobs(2, {.rule = averaged({})}, [](Job& job) {
    job.train(2);
    const Image before = job.image();
    try {
      const EmaScope scope = job.optimizer->ema_scope();
      if (job.comm_->rank() == 1) throw std::runtime_error("evaluation failed");
    } catch (const std::runtime_error&) {
    }
    EXPECT_EQ(first_difference(before, job.image()), "");
  });
}

TEST(EmaScope, WhileItLivesNothingWorksThatNeedsTheWeights) {
  on_jobs(2, {.rule = averaged({})}, [](Job& job) {
    job.train(1);
    Optimizer& optimizer = *job.optimizer;
    const auto store = make_memory_store();
    {
      const EmaScope scope = optimizer.ema_scope();
      const std::vector<std::function<void()>> calls = {
          [&] { optimizer.backward(job.model->loss(toy_batch(0, 0))); },
          [&] { optimizer.step(); },
          [&] { optimizer.save(*store); },
          [&] { optimizer.load(*store, 1); },
          [&] { optimizer.refresh_masters(); },
          [&] { optimizer.load_parameters("none"); },
          [&] { optimizer.gather("gain", StateKind::kMaster); },
          [&] { (void)optimizer.ema_scope(); }};
      for (const auto& call : calls)
        EXPECT_THAT(thrown<ContractError>(call), HasSubstr("let the EmaScope go"));
      EXPECT_GT(optimizer.memory().ema, 0);
      EXPECT_EQ(optimizer.steps_applied(), 1);
    }
    job.train(2);
  });
}

TEST(EmaScope, MayOutliveItsOptimizerAndBeMoved) {
  on_every_rank(2, [](const Comm& comm) {
    Job job(comm, {.rule = averaged({})});
    job.train(2);
    const auto averages = averages_of(job);
    const Image before = job.image();
    std::optional<EmaScope> scope = job.optimizer->ema_scope();
    EmaScope moved = *std::move(scope);
    scope.reset();
    job.optimizer->shutdown();
    job.optimizer.reset();
    expect_average_in_place(job.model, averages);
    { const EmaScope last = std::move(moved); }
    EXPECT_EQ(bytes_of(job.model->embedding), before.at("parameter embedding"));
  });
}

TEST(EmaScope, NeedsAnAverage) {
  on_jobs(1, {}, [](Job& job) {
    EXPECT_THAT(thrown<ContractError>([&] { (void)job.optimizer->ema_scope(); }),
                HasSubstr("Options().ema(decay)"));
    EXPECT_THAT(thrown<ContractError>([&] { average_of(*job.optimizer, "gain"); }),
                HasSubstr("keeps no such state: ema"));
  });
}

TEST(Ema, BeginsAnewWhereSomebodyWritesTheWeights) {
  const TemporaryFolder folder;
  for (const bool on_disk : {false, true}) {
    for (const auto dtype : {torch::kFloat, torch::kBFloat16}) {
      JobOptions options = on_disk ? offloaded(folder, 2, dtype) : JobOptions{.dtype = dtype};
      options.rule = averaged({});
      on_jobs(2, options, [](Job& job) {
        job.train(2);
        {
          const torch::NoGradGuard no_grad;
          job.model->embedding.fill_(0.375f);
        }
        job.optimizer->refresh_masters();
        for (const auto& [name, average] : averages_of(job))
          EXPECT_TRUE(torch::equal(average, job.optimizer->gather(name, StateKind::kMaster)))
              << name;
      });
    }
  }
}

std::unique_ptr<checkpoint::Store> saved_with(const RuleCase& rule) {
  auto store = make_memory_store();
  on_jobs(2, {.dtype = torch::kBFloat16, .rule = rule}, [&](Job& job) {
    job.train(3);
    job.optimizer->save(*store);
  });
  return store;
}

TEST(EmaCheckpoint, WithoutOneIsRefusedUnlessItMayBeginAtTheMasters) {
  const auto store = saved_with({});
  on_jobs(2, {.dtype = torch::kBFloat16, .seed = 3, .rule = averaged({})}, [&](Job& job) {
    EXPECT_THAT(thrown<ContractError>([&] { job.optimizer->load(*store, 3); }),
                AllOf(HasSubstr("state 'ema': not in the checkpoint (allow_missing)"),
                      HasSubstr("1 difference\n")));
    const LoadReport report = job.optimizer->load(*store, 3, LoadOptions().allow_missing(true));
    EXPECT_THAT(to_text(report), HasSubstr("begins at the masters"));
    for (const auto& [name, average] : averages_of(job))
      EXPECT_TRUE(torch::equal(average, job.optimizer->gather(name, StateKind::kMaster))) << name;
  });
}

TEST(EmaCheckpoint, WithOneIsRefusedByWhoKeepsNoneUnlessItMayBeLeftOut) {
  const auto store = saved_with(averaged({}));
  on_jobs(2, {.dtype = torch::kBFloat16, .seed = 3}, [&](Job& job) {
    EXPECT_THAT(thrown<ContractError>([&] { job.optimizer->load(*store, 3); }),
                HasSubstr("state 'ema': this optimizer has no such state (allow_extra)"));
    job.optimizer->load(*store, 3, LoadOptions().allow_extra(true));
    EXPECT_EQ(first_difference(twin_image(torch::kBFloat16, 3), job.image()), "");
  });
}

TEST(EmaCheckpoint, WeightsOnlyBeginsAtTheMasters) {
  const auto store = saved_with(averaged({}));
  on_jobs(2, {.dtype = torch::kBFloat16, .seed = 3, .rule = averaged({})}, [&](Job& job) {
    job.optimizer->load(*store, 3, LoadOptions().weights_only(true));
    for (const auto& [name, average] : averages_of(job))
      EXPECT_TRUE(torch::equal(average, job.optimizer->gather(name, StateKind::kMaster))) << name;
  });
}

TEST(Ema, DecaysOutOfRangeAreNamed) {
  for (const double decay : {-0.1, 1.0, 1 - 1e-12, std::nan("")}) {
    const auto errors = errors_on_ranks(
        1, [&](const Comm& comm) { Trainee trainee(comm, tiny_options(2).ema(decay)); });
    EXPECT_THAT(errors.front(), HasSubstr("decay of the average, must lie in [0, 1)"));
  }
}

}  // namespace
}  // namespace zero::testing
