#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>

#include "tests/optim/pull.h"

// Norm and clipping. AdamW hides a wrong factor, so exp_avg = 0.1 g and exp_avg_sq = 0.001 g^2 are
// asserted.

namespace zero {
namespace {

using testing::fine_options;
using testing::on_every_stage;
using testing::parameter;
using testing::pull;
using testing::values_of;
using Values = std::vector<float>;

Values gathered(Optimizer& optimizer, const std::string& name, StateKind kind) {
  return values_of(optimizer.gather(name, kind));
}

TEST(Norm, OfShardsWithNorms3And4Is5OnEveryRank) {
  for (const int world_size : {1, 2, 4}) {
    on_every_stage(world_size, [](const auto& comm, int stage) {
      auto p = parameter({1, 1});  // one element a shard
      Optimizer optimizer({{"p", p}}, {}, AdamWOptions(0.1), fine_options(stage), comm);
      optimizer.backward(pull(p, Values{3, 4}));
      EXPECT_EQ(optimizer.step().grad_norm, 5.0);
      optimizer.shutdown();
    });
  }
}

TEST(Norm, IsThatOfTheMeanNotTheMeanOfNorms) {
  on_every_stage(2, [](const auto& comm, int stage) {
    auto p = parameter({1, 1});
    Optimizer optimizer({{"p", p}}, {}, AdamWOptions(0.1), fine_options(stage), comm);
    optimizer.backward(pull(p, comm->rank() == 0 ? Values{6, 8} : Values{-6, 8}));
    EXPECT_EQ(optimizer.step().grad_norm, 8.0);
    optimizer.shutdown();
  });
}

TEST(Norm, StagingAndPaddingThatHeldNaNContributeNothing) {
  on_every_stage(2, [](const auto& comm, int stage) {
    auto small = parameter({1, 1, 1}), large = parameter(Values(11, 1));
    Options options = fine_options(stage);
    options.bucket_bytes(12).first_bucket_bytes(12);
    Optimizer optimizer({{"small", small}, {"large", large}}, {}, AdamWOptions(0.1), options, comm);
    ASSERT_EQ(optimizer.layout().buckets().size(),
              2u);  // large first: 3 elements travel where its 11 were
    optimizer.backward(pull(small, Values{1, 1, 1}) + pull(large, Values(11, NAN)));
    EXPECT_FALSE(optimizer.step().applied);
    optimizer.backward(pull(small, Values{2, 3, 6}));
    EXPECT_EQ(optimizer.step().grad_norm, 7.0);
    optimizer.backward(pull(small, Values{2, 3, 6}) + pull(large, Values(11, 1e30f)));
    EXPECT_NEAR(optimizer.step().grad_norm, std::sqrt(11.0) * 1e30, 1e24);
    optimizer.backward(pull(small, Values{2, 3, 6}));
    EXPECT_EQ(optimizer.step().grad_norm, 7.0);
    optimizer.shutdown();
  });
}

TEST(Norm, CountsATiedWeightOnceWithBothItsGradients) {
  on_every_stage(2, [](const auto& comm, int stage) {
    auto w = parameter({1, 1});
    Optimizer optimizer({{"embedding", w}, {"head", w}}, {}, AdamWOptions(0.1).weight_decay(0),
                        fine_options(stage), comm);
    optimizer.backward(pull(w, Values{12, 5}) + pull(w, Values{8, 15}));
    EXPECT_NEAR(optimizer.step().grad_norm, 28.284271247461902, 1e-12);
    EXPECT_EQ(optimizer.param_groups()[0].params().size(), 1u);
    for (const char* name : {"embedding", "head"}) {
      EXPECT_EQ(gathered(optimizer, name, StateKind::kExpAvg), (Values{0.1f * 20, 0.1f * 20}))
          << name;
    }
    EXPECT_NEAR(values_of(w)[0], 0.9, 1e-6) << "stepped once";
    optimizer.shutdown();
  });
}

TEST(Clip, Norm10ClippedTo1IsMultipliedBy0_09999999) {
  on_every_stage(2, [](const auto& comm, int stage) {
    auto p = parameter({1, 1});
    Options options = fine_options(stage);
    options.clip_norm(1.0);
    Optimizer optimizer({{"p", p}}, {}, AdamWOptions(0.1), options, comm);
    optimizer.backward(pull(p, Values{6, 8}));
    const StepResult result = optimizer.step();
    EXPECT_EQ(result.grad_norm, 10.0) << "reported before clipping";
    EXPECT_NEAR(result.clip_factor, 0.09999999, 1e-14);
    const double g = 8 * 0.09999999;
    EXPECT_NEAR(gathered(optimizer, "p", StateKind::kExpAvg)[1], 0.1 * g, 1e-8);
    EXPECT_NEAR(gathered(optimizer, "p", StateKind::kExpAvgSq)[1], 0.001 * g * g, 1e-10);
    EXPECT_EQ(gathered(optimizer, "p", StateKind::kGradient), (Values{6, 8})) << "before clipping";
    optimizer.shutdown();
  });
}

TEST(Clip, ANormBelowTheLimitLeavesEveryBitAlone) {
  on_every_stage(2, [](const auto& comm, int stage) {
    auto clipped = parameter({1, 1}), free = parameter({1, 1});
    Options options = fine_options(stage);
    Optimizer without({{"p", free}}, {}, AdamWOptions(0.1), options, comm);
    options.clip_norm(1.0);
    Optimizer with({{"p", clipped}}, {}, AdamWOptions(0.1), options, comm);
    const Values g{0.54f, -0.72f};
    without.backward(pull(free, g));
    with.backward(pull(clipped, g));
    without.step();
    const StepResult result = with.step();
    EXPECT_NEAR(result.grad_norm, 0.9, 1e-7);
    EXPECT_EQ(result.clip_factor, 1.0);
    for (const StateKind kind : {StateKind::kMaster, StateKind::kExpAvg, StateKind::kExpAvgSq}) {
      EXPECT_EQ(gathered(with, "p", kind), gathered(without, "p", kind));
    }
    EXPECT_EQ(gathered(with, "p", StateKind::kExpAvg)[1], 0.1f * -0.72f);
    without.shutdown();
    with.shutdown();
  });
}

TEST(Clip, SwitchedOffStillReportsTheNorm) {
  on_every_stage(2, [](const auto& comm, int stage) {
    auto p = parameter({1, 1});
    Options options = fine_options(stage);
    options.clip_norm(0);
    Optimizer optimizer({{"p", p}}, {}, AdamWOptions(0.1), options, comm);
    optimizer.backward(pull(p, Values{6, 8}));
    const StepResult result = optimizer.step();
    EXPECT_EQ(result.grad_norm, 10.0);
    EXPECT_EQ(result.clip_factor, 1.0);
    EXPECT_EQ(gathered(optimizer, "p", StateKind::kExpAvg)[1], 0.1f * 8);
    optimizer.shutdown();
  });
}

TEST(Clip, SeesTheUnscaledNormOfScaledFloat16Gradients) {
  on_every_stage(2, [](const auto& comm, int stage) {
    auto p = parameter({1, 1}, torch::kHalf);
    Options options = fine_options(stage);
    options.clip_norm(1.0).loss_scaler({.initial_scale = 1024});
    Optimizer optimizer({{"p", p}}, {}, AdamWOptions(0.1), options, comm);
    optimizer.backward(pull(p, Values{3, 4}), 2);
    optimizer.backward(pull(p, Values{9, 12}), 2);
    const StepResult result = optimizer.step();
    EXPECT_EQ(result.grad_norm, 10.0);
    EXPECT_NEAR(result.clip_factor, 0.09999999, 1e-14);
    EXPECT_NEAR(gathered(optimizer, "p", StateKind::kExpAvg)[1], 0.1 * 8 * 0.09999999, 1e-8);
    optimizer.shutdown();
  });
}

}  // namespace
}  // namespace zero
