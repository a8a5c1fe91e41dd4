#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>

#include "tests/optim/pull.h"

// Gradients that are not finite, the loss scale, and what counts as a step.

namespace zero {
namespace {

using testing::errors_on_ranks;
using testing::fine_options;
using testing::on_every_stage;
using testing::parameter;
using testing::pull;
using testing::values_of;
using Values = std::vector<float>;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

Values gathered(Optimizer& optimizer, const std::string& name, StateKind kind) {
  return values_of(optimizer.gather(name, kind));
}

TEST(Scale, GradientsAreUnscaledByTheScaleThatScaledThem) {
  on_every_stage(2, [](const auto& comm, int stage) {
    auto p = parameter({1, 1}, torch::kHalf);
    Options options = fine_options(stage);
    options.loss_scaler({.initial_scale = 4, .growth_interval = 1});
    Optimizer optimizer({{"p", p}}, {}, AdamWOptions(0.1), options, comm);
    float moment = 0;
    for (const double scale : {4.0, 8.0, 16.0}) {
      EXPECT_EQ(optimizer.loss_scale(), scale);
      optimizer.backward(pull(p, Values{1, 3}));
      const StepResult result = optimizer.step();
      EXPECT_EQ(result.loss_scale, scale);
      EXPECT_EQ(result.next_loss_scale, 2 * scale);
      EXPECT_EQ(result.grad_norm, std::sqrt(10.0));
      EXPECT_EQ(gathered(optimizer, "p", StateKind::kGradient), (Values{1, 3}));
      moment = 0.9f * moment + 0.1f;
      EXPECT_FLOAT_EQ(gathered(optimizer, "p", StateKind::kExpAvg)[0], moment);
    }
    optimizer.shutdown();
  });
}

TEST(Scale, IsExactlyOneForBFloat16AndFloat32WhateverTheScalerWasTold) {
  for (const auto dtype : {torch::kBFloat16, torch::kFloat}) {
    on_every_stage(2, [&](const auto& comm, int stage) {
      auto p = parameter({1}, dtype);
      Options options = fine_options(stage);
      options.loss_scaler({.initial_scale = 1024, .growth_interval = 1});
      Optimizer optimizer({{"p", p}}, {}, AdamWOptions(0.1), options, comm);
      for (const float g : {1.0f, kInf, 2.0f}) {
        optimizer.backward(pull(p, Values{g}));
        const StepResult result = optimizer.step();
        EXPECT_EQ(result.loss_scale, 1.0);
        EXPECT_EQ(result.next_loss_scale, 1.0);
        EXPECT_EQ(optimizer.loss_scale(), 1.0);
      }
      optimizer.shutdown();
    });
  }
}

/// One bad value in the last element of the last rank's shard, coming from one rank only.
void expect_everyone_skips(float bad, int guilty, torch::Dtype second_dtype) {
  on_every_stage(3, [&](const auto& comm, int stage) {
    auto first = parameter(Values(9, 1), torch::kHalf),
         second = parameter(Values(9, 1), second_dtype);
    Options options = fine_options(stage);
    options.loss_scaler({.initial_scale = 8});
    Optimizer optimizer({{"first", first}, {"second", second}}, {}, AdamWOptions(0.1), options,
                        comm);
    Values g(9, 2);
    if (comm->rank() == guilty) g.back() = bad;
    optimizer.backward(pull(first, Values(9, 2)) + pull(second, g));
    const StepResult result = optimizer.step();
    EXPECT_FALSE(result.applied);
    EXPECT_FALSE(std::isfinite(result.grad_norm));
    EXPECT_EQ(result.overflow_parameter, "second");
    EXPECT_NE(result.reason.find("second"), std::string::npos) << result.reason;
    EXPECT_EQ(result.step, 0);
    EXPECT_EQ(result.consecutive_skips, 1);
    EXPECT_EQ(result.next_loss_scale, 4);
    EXPECT_EQ(optimizer.steps_applied(), 0);
    for (const char* name : {"first", "second"}) {
      EXPECT_EQ(gathered(optimizer, name, StateKind::kExpAvg), Values(9, 0));
      EXPECT_EQ(gathered(optimizer, name, StateKind::kMaster), Values(9, 1));
    }
    EXPECT_EQ(values_of(second), Values(9, 1));
    optimizer.shutdown();
  });
}

TEST(Overflow, InfInTheLastElementOfTheLastShardMakesEveryRankSkip) {
  for (const int guilty : {0, 2}) expect_everyone_skips(kInf, guilty, torch::kFloat);
}

TEST(Overflow, NaNInTheLastElementOfTheLastShardMakesEveryRankSkip) {
  for (const int guilty : {1, 2}) expect_everyone_skips(kNaN, guilty, torch::kFloat);
}

TEST(Overflow, IsSeenInASecondDtypesBuckets) {
  expect_everyone_skips(-kInf, 2, torch::kBFloat16);
  expect_everyone_skips(kNaN, 1, torch::kHalf);
}

TEST(Overflow, OppositeInfinitiesOnTwoRanksDoNotCancel) {
  on_every_stage(2, [](const auto& comm, int stage) {
    auto p = parameter({1, 1});
    Optimizer optimizer({{"p", p}}, {}, AdamWOptions(0.1), fine_options(stage), comm);
    optimizer.backward(pull(p, Values{1, comm->rank() == 0 ? kInf : -kInf}));
    EXPECT_FALSE(optimizer.step().applied);
    EXPECT_EQ(values_of(p), (Values{1, 1}));
    optimizer.shutdown();
  });
}

TEST(Overflow, OfAnEarlierMicroBatchIsNotForgotten) {
  on_every_stage(2, [](const auto& comm, int stage) {
    auto p = parameter({1, 1});
    Optimizer optimizer({{"p", p}}, {}, AdamWOptions(0.1), fine_options(stage), comm);
    optimizer.backward(pull(p, Values{kNaN, 1}));
    optimizer.backward(pull(p, Values{1, 1}));
    EXPECT_FALSE(optimizer.step().applied);
    optimizer.backward(pull(p, Values{3, 4}));
    EXPECT_EQ(optimizer.step().grad_norm, 5.0) << "the next window starts clean";
    optimizer.shutdown();
  });
}

TEST(Overflow, InBFloat16IsSkippedAndReportedAndLeavesNoTrace) {
  for (const auto dtype : {torch::kBFloat16, torch::kHalf, torch::kFloat}) {
    on_every_stage(2, [&](const auto& comm, int stage) {
      auto hurt = parameter({1, 2}, dtype), spared = parameter({1, 2}, dtype);
      Options options = fine_options(stage);
      options.loss_scaler({.initial_scale = 4});
      Optimizer with({{"p", hurt}}, {}, AdamWOptions(0.1), options, comm);
      Optimizer without({{"p", spared}}, {}, AdamWOptions(0.1), options, comm);
      for (int step = 1; step <= 4; ++step) {
        const Values g{static_cast<float>(step), -0.5f};
        with.backward(pull(hurt, step == 2 ? Values{1, kInf} : g));
        EXPECT_EQ(with.step().applied, step != 2);
        if (step == 2) continue;
        without.backward(pull(spared, g));
        EXPECT_TRUE(without.step().applied);
      }
      EXPECT_EQ(with.steps_applied(), 3);
      EXPECT_EQ(values_of(hurt), values_of(spared));
      for (const StateKind kind : {StateKind::kMaster, StateKind::kExpAvg, StateKind::kExpAvgSq}) {
        EXPECT_EQ(gathered(with, "p", kind), gathered(without, "p", kind));
      }
      with.shutdown();
      without.shutdown();
    });
  }
}

TEST(Skips, ManyInARowAreAnErrorOnEveryRank) {
  for (const int stage : {0, 1, 2}) {
    const auto messages = errors_on_ranks(2, [&](const auto& comm) {
      auto p = parameter({1, 1}, torch::kHalf);
      Options options = fine_options(stage);
      options.loss_scaler({.initial_scale = 4, .max_consecutive_skips = 4});
      Optimizer optimizer({{"p", p}}, {}, AdamWOptions(0.1), options, comm);
      for (const double next : {2.0, 1.0, 1.0}) {
        optimizer.backward(pull(p, Values{1, kInf}));
        EXPECT_EQ(optimizer.step().next_loss_scale, next);
      }
      optimizer.backward(pull(p, Values{1, kInf}));
      optimizer.step();
    });
    for (const std::string& message : messages)
      EXPECT_NE(message.find("skipped steps in a row"), std::string::npos);
  }
}

/// Linear warm-up, one tenth a step.
class WarmUp : public torch::optim::LRScheduler {
 public:
  explicit WarmUp(torch::optim::Optimizer& optimizer) : LRScheduler(optimizer) {}
  unsigned count() const { return step_count_; }

 private:
  std::vector<double> get_lrs() override { return {(step_count_ + 1) / 10.0}; }
};

TEST(Skips, ASchedulerThatFollowsAppliedCounts3Of5) {
  on_every_stage(2, [](const auto& comm, int stage) {
    auto p = parameter({1}, torch::kHalf);
    Optimizer optimizer({{"p", p}}, {}, AdamWOptions(0.0).weight_decay(0), fine_options(stage),
                        comm);
    WarmUp schedule(optimizer);
    int skipped = 0;
    for (int step = 0; step < 5; ++step) {
      optimizer.backward(pull(p, Values{step == 1 || step == 3 ? kNaN : 0.5f}));
      const StepResult result = optimizer.step();
      if (result.applied) schedule.step();
      skipped += result.applied ? 0 : 1;
    }
    EXPECT_EQ(skipped, 2);
    EXPECT_EQ(schedule.count(), 3u);
    EXPECT_NEAR(optimizer.param_groups()[0].options().get_lr(), 0.3, 1e-12);
    EXPECT_EQ(optimizer.steps_applied(), 3);
    optimizer.shutdown();
  });
}

TEST(Skips, BiasCorrectionCountsAppliedSteps) {
  on_every_stage(2, [](const auto& comm, int stage) {
    auto p = parameter({1, 1});
    Optimizer optimizer({{"p", p}}, {}, AdamWOptions(0.1).weight_decay(0), fine_options(stage),
                        comm);
    for (int step = 0; step < 2; ++step) {
      optimizer.backward(pull(p, Values{kInf, 1}));
      EXPECT_FALSE(optimizer.step().applied);
    }
    optimizer.backward(pull(p, Values{0.5f, 2}));
    EXPECT_EQ(optimizer.step().step, 1);
    EXPECT_NEAR(values_of(p)[0], 0.9, 1e-6);  // 0.936 if the skipped steps counted
    optimizer.shutdown();
  });
}

TEST(Steps, ElevenEqualGradientsMoveElevenRates) {
  on_every_stage(2, [](const auto& comm, int stage) {
    auto p = parameter({1, 1});
    Optimizer optimizer({{"p", p}}, {}, AdamWOptions(0.1).weight_decay(0), fine_options(stage),
                        comm);
    for (int step = 1; step <= 11; ++step) {
      optimizer.backward(pull(p, Values{1, -1}));
      optimizer.step();
      EXPECT_NEAR(values_of(p)[0], 1 - 0.1 * step, 2e-6);
    }
    EXPECT_NEAR(gathered(optimizer, "p", StateKind::kExpAvg)[0], 0.68618940391, 1e-6);
    optimizer.shutdown();
  });
}

TEST(Steps, TheCounterPasses256And2048InEveryDtype) {
  static_assert(std::is_same_v<decltype(StepResult::step), std::int64_t>);
  for (const auto dtype : {torch::kBFloat16, torch::kHalf}) {
    testing::on_ranks(1, [&](const auto& comm) {
      auto p = parameter({1}, dtype);
      Options options = fine_options(2);
      options.loss_scaler({.initial_scale = 1024});
      // With beta2 this near to 1 a counter that stops at 256 makes the step shrink visibly.
      Optimizer optimizer({{"p", p}}, {}, AdamWOptions(1e-4).betas({0.9, 0.9999}).weight_decay(0),
                          options, comm);
      for (int step = 1; step <= 2100; ++step) {
        optimizer.backward(pull(p, Values{1}));
        EXPECT_EQ(optimizer.step().step, step);
      }
      EXPECT_EQ(optimizer.steps_applied(), 2100);
      EXPECT_NEAR(gathered(optimizer, "p", StateKind::kMaster)[0], 1 - 0.21, 1e-4);
      optimizer.shutdown();
    });
  }
}

}  // namespace
}  // namespace zero
