#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/optim/pull.h"

// Shapes, shards, groups and dtypes that are ordinary inputs here and crashed elsewhere.

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

TEST(Shapes, ZeroSizeParameterKeepsItsShapeAndDisturbsNobody) {
  on_every_stage(2, [](const auto& comm, int stage) {
    auto a = parameter({1, 2, 3, 4}), c = parameter({5, 6, 7, 8});
    auto nothing = torch::zeros({0, 8}).requires_grad_();
    auto lonely = torch::zeros({8, 0}, torch::kBFloat16).requires_grad_();  // a bucket of its own
    Optimizer optimizer({{"a", a}, {"nothing", nothing}, {"c", c}, {"lonely", lonely}}, {},
                        AdamWOptions(0.1).weight_decay(0), fine_options(stage), comm);
    for (int step = 0; step < 2; ++step) {
      optimizer.backward(pull(a, Values{1, -1, 2, -2}) + pull(c, Values{3, -3, 4, -4}) +
                         nothing.sum());
      EXPECT_DOUBLE_EQ(optimizer.step().grad_norm, std::sqrt(60.0));
    }
    EXPECT_EQ(optimizer.gather("nothing", StateKind::kExpAvg).sizes(),
              (std::vector<std::int64_t>{0, 8}));
    EXPECT_EQ(optimizer.gather("lonely", StateKind::kMaster).sizes(),
              (std::vector<std::int64_t>{8, 0}));
    std::int64_t owned = 0;
    optimizer.for_each_shard(StateKind::kExpAvg, [&](const ShardView& view) {
      EXPECT_TRUE(view.name == "a" || view.name == "c");
      owned += view.end - view.begin;
    });
    EXPECT_EQ(owned, 4) << "8 elements over 2 ranks";
    EXPECT_FLOAT_EQ(gathered(optimizer, "c", StateKind::kExpAvg)[3], -4 * 0.19f);
    optimizer.shutdown();
  });
}

TEST(Shapes, ModelSmallerThanTheWorldStepsOnEveryRank) {
  on_every_stage(4, [](const auto& comm, int stage) {
    auto p = parameter({1, 1});
    Optimizer optimizer({{"p", p}}, {}, AdamWOptions(0.1).weight_decay(0), fine_options(stage),
                        comm);
    std::int64_t owned = 0;
    optimizer.for_each_shard(StateKind::kExpAvg,
                             [&](const ShardView& view) { owned += view.end - view.begin; });
    EXPECT_EQ(owned, comm->rank() < 2 ? 1 : 0);
    optimizer.backward(pull(p, Values{3, 4}));
    EXPECT_EQ(optimizer.step().grad_norm, 5.0);
    EXPECT_NEAR(values_of(p)[0], 0.9, 1e-6);
    EXPECT_NEAR(values_of(p)[1], 0.9, 1e-6);
    EXPECT_EQ(gathered(optimizer, "p", StateKind::kMaster), values_of(p));
    optimizer.shutdown();
  });
}

TEST(Groups, AGroupThatIsFrozenKeepsItsPlaceAndItsValues) {
  on_every_stage(2, [](const auto& comm, int stage) {
    auto frozen = torch::tensor({0.1f, -0.0f, 1e-40f}), p = parameter({1});
    Options options = fine_options(stage);
    options.groups({{[](const std::string& name, const at::Tensor&) { return name == "p"; },
                     AdamWOptions(0.25).weight_decay(0)}});
    Optimizer optimizer({{"frozen", frozen}, {"p", p}}, {}, AdamWOptions(0.5), options, comm);
    ASSERT_EQ(optimizer.param_groups().size(), 2u);
    EXPECT_TRUE(optimizer.param_groups()[0].params().empty());
    EXPECT_EQ(optimizer.param_groups()[1].options().get_lr(), 0.25);
    const torch::Tensor before = frozen.view(torch::kInt).clone();
    optimizer.backward((frozen * p).sum());
    EXPECT_TRUE(optimizer.step().applied);
    EXPECT_NEAR(values_of(p)[0], 0.75, 1e-6);
    EXPECT_TRUE(torch::equal(frozen.view(torch::kInt), before)) << "bit for bit";
    optimizer.shutdown();
  });
}

TEST(Groups, InterleavedParametersKeepTheirOwnRateAndDecay) {
  on_every_stage(2, [](const auto& comm, int stage) {
    auto a = parameter({1, 1, 1}), b = parameter({1, 1}), c = parameter({1});
    Options options = fine_options(stage);
    options.groups({{[](const std::string& name, const at::Tensor&) { return name == "b"; },
                     AdamWOptions(1e-4).weight_decay(0)}});
    Optimizer optimizer({{"a", a}, {"b", b}, {"c", c}}, {}, AdamWOptions(1e-3).weight_decay(0.01),
                        options, comm);
    optimizer.backward(pull(a, Values{1, 2, 3}) + pull(b, Values{4, -5}) + pull(c, Values{6}));
    optimizer.step();
    const float with_decay = 1 - 1e-5f - 1e-3f;
    for (const float value : values_of(a)) EXPECT_NEAR(value, with_decay, 1e-7);
    EXPECT_NEAR(values_of(b)[0], 1 - 1e-4, 1e-7);
    EXPECT_NEAR(values_of(b)[1], 1 + 1e-4, 1e-7);
    EXPECT_NEAR(values_of(c)[0], with_decay, 1e-7);
    optimizer.shutdown();
  });
}

TEST(Dtypes, AnFp32ParameterBesideHalfOnesIsNotRounded) {
  on_every_stage(2, [](const auto& comm, int stage) {
    auto half = parameter({1, 2, 3}, torch::kHalf), brain = parameter({5}, torch::kBFloat16);
    auto single = parameter({1.0001f, 2});
    Options options = fine_options(stage);
    options.loss_scaler({.initial_scale = 16});
    Optimizer optimizer({{"half", half}, {"single", single}, {"brain", brain}}, {},
                        AdamWOptions(0.0), options, comm);
    EXPECT_EQ(optimizer.layout().buckets().size(), 3u);
    const float fine = 1.0f + 0x1p-20f;  // no 16-bit type holds it
    optimizer.backward(pull(half, Values{1, 2, 3}) + pull(single, Values{fine, 2}) +
                       pull(brain, Values{7}));
    EXPECT_EQ(gathered(optimizer, "single", StateKind::kGradient), (Values{fine, 2}));
    EXPECT_TRUE(optimizer.step().applied);
    EXPECT_EQ(values_of(single), (Values{1.0001f, 2}));
    EXPECT_EQ(values_of(half), (Values{1, 2, 3}));
    EXPECT_EQ(gathered(optimizer, "half", StateKind::kExpAvg)[2], 0.1f * 3);
    EXPECT_EQ(gathered(optimizer, "brain", StateKind::kExpAvg)[0], 0.1f * 7);
    optimizer.shutdown();
  });
}

TEST(Dtypes, WireInBFloat16RoundsEveryRanksGradientTheOwnToo) {
  for (const int world_size : {1, 2}) {
    on_every_stage(world_size, [](const auto& comm, int stage) {
      auto p = parameter({1, 1});
      Options options = fine_options(stage);
      options.wire(torch::kBFloat16);
      Optimizer optimizer({{"p", p}}, {}, AdamWOptions(0.1), options, comm);
      optimizer.backward(pull(p, Values{1.001f, 3}));
      EXPECT_EQ(gathered(optimizer, "p", StateKind::kGradient), (Values{1, 3}));
      optimizer.shutdown();
    });
  }
}

TEST(Masters, MovesTooSmallForSixteenBitsAddUp) {
  for (const auto dtype : {torch::kBFloat16, torch::kHalf}) {
    on_every_stage(2, [&](const auto& comm, int stage) {
      auto p = parameter({1}, dtype);
      Options options = fine_options(stage);
      options.loss_scaler({.initial_scale = 1024});
      Optimizer optimizer({{"p", p}}, {}, AdamWOptions(1e-4).weight_decay(0), options, comm);
      for (int step = 0; step < 100; ++step) {
        optimizer.backward(pull(p, Values{1}));
        EXPECT_TRUE(optimizer.step().applied);
      }
      EXPECT_NEAR(gathered(optimizer, "p", StateKind::kMaster)[0], 0.99, 1e-5);
      EXPECT_NEAR(values_of(p)[0], 0.99, dtype == torch::kHalf ? 5e-4 : 4e-3);
      optimizer.shutdown();
    });
  }
}

TEST(Masters, RefreshTakesWhatWasWrittenIntoTheParameters) {
  for (const auto dtype : {torch::kHalf, torch::kBFloat16, torch::kFloat}) {
    on_every_stage(2, [&](const auto& comm, int stage) {
      auto w = parameter({1, 1}, dtype);
      Options options = fine_options(stage);
      options.loss_scaler({.initial_scale = 1024});
      Optimizer optimizer({{"w", w}}, {}, AdamWOptions(0.0), options, comm);
      {
        const torch::NoGradGuard no_grad;
        w.fill_(comm->rank() == 0 ? 0.5 : 0.25);  // rank 0's count
      }
      optimizer.refresh_masters();
      EXPECT_EQ(gathered(optimizer, "w", StateKind::kMaster), (Values{0.5, 0.5}));
      optimizer.backward(pull(w, Values{1, 1}));
      EXPECT_TRUE(optimizer.step().applied);
      EXPECT_EQ(values_of(w), (Values{0.5, 0.5}));
      optimizer.shutdown();
    });
  }
}

TEST(Construction, RankZerosParametersAndBuffersBecomeEverybodys) {
  on_every_stage(3, [](const auto& comm, int stage) {
    const auto r = static_cast<float>(comm->rank());
    auto p = parameter({1 + r, 2 + r}), frozen = torch::tensor({3 + r});
    auto mean = torch::tensor({5 + r});
    auto count = torch::tensor({static_cast<std::int64_t>(7 + comm->rank())});
    Optimizer optimizer({{"p", p}, {"frozen", frozen}}, {{"mean", mean}, {"count", count}},
                        AdamWOptions(0.1), fine_options(stage), comm);
    EXPECT_EQ(values_of(p), (Values{1, 2}));
    EXPECT_EQ(values_of(frozen), Values{3});
    EXPECT_EQ(values_of(mean), Values{5});
    EXPECT_EQ(count.item<std::int64_t>(), 7);
    optimizer.shutdown();
  });
}

}  // namespace
}  // namespace zero
