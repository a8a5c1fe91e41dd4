#include <gtest/gtest.h>
#include <torch/torch.h>

#include "libzero/base/error.h"
#include "tests/optim/pull.h"

// What arrives in the reduced gradient: order, mean, dtype, strides, accumulation, unused
// parameters.

namespace zero {
namespace {

using testing::errors_on_ranks;
using testing::fine_options;
using testing::on_every_stage;
using testing::parameter;
using testing::pull;
using testing::values_of;
using Values = std::vector<float>;

Values gradient(Optimizer& optimizer, const std::string& name) {
  return values_of(optimizer.gather(name, StateKind::kGradient));
}

Values exp_avg(Optimizer& optimizer, const std::string& name) {
  return values_of(optimizer.gather(name, StateKind::kExpAvg));
}

TEST(Reduction, RanksThatFinishGradientsInOppositeOrderStillAverageLikeWithLike) {
  std::array<std::array<std::string, 2>, 3> order;  // by stage, then rank
  on_every_stage(2, [&](const auto& comm, int stage) {
    auto a = parameter({1, 1, 1, 1}), b = parameter({1, 1, 1, 1});
    Options options = fine_options(stage);
    options.bucket_bytes(16).first_bucket_bytes(16);  // a bucket each
    Optimizer optimizer({{"a", a}, {"b", b}}, {}, AdamWOptions(0.1), options, comm);
    ASSERT_EQ(optimizer.layout().buckets().size(), 2u);
    std::string& log = order[stage][comm->rank()];
    a.register_hook([&log](const at::Tensor&) { log += 'a'; });
    b.register_hook([&log](const at::Tensor&) { log += 'b'; });
    const Values one(4, 1), two(4, 2);
    const bool a_is_last = comm->rank() == 0;  // autograd runs the newest node first
    const auto first = a_is_last ? pull(b, two) : pull(a, one);
    const auto second = a_is_last ? pull(a, one) : pull(b, two);
    optimizer.backward(first + second);
    EXPECT_EQ(gradient(optimizer, "a"), one);
    EXPECT_EQ(gradient(optimizer, "b"), two);
    optimizer.shutdown();
  });
  for (const auto& ranks : order) EXPECT_NE(ranks[0], ranks[1]) << "the test needs opposite orders";
}

TEST(Reduction, IsAMeanOverAnyWorldWithOddLengths) {
  for (const int world_size : {1, 2, 3}) {
    for (const auto dtype : {torch::kFloat, torch::kBFloat16, torch::kHalf}) {
      on_every_stage(world_size, [&](const auto& comm, int stage) {
        auto p = parameter(Values(7, 1), dtype);
        Options options = fine_options(stage);
        options.loss_scaler({.initial_scale = 8});
        Optimizer optimizer({{"p", p}}, {}, AdamWOptions(0.1), options, comm);
        const auto r = static_cast<float>(comm->rank());
        Values mine, expected;
        for (int i = 0; i < 7; ++i) mine.push_back((2 * r + 1) * static_cast<float>(i + 1));
        for (int i = 0; i < 7; ++i) expected.push_back(static_cast<float>(world_size * (i + 1)));
        optimizer.backward(pull(p, mine));
        EXPECT_EQ(gradient(optimizer, "p"), expected);
        EXPECT_EQ(optimizer.step().weight, world_size);
        optimizer.shutdown();
      });
    }
  }
}

TEST(Reduction, Float16SumsNeitherOverflowNorVanish) {
  on_every_stage(4, [](const auto& comm, int stage) {
    auto large = parameter({1, 1, 1}, torch::kHalf), small = parameter({1}, torch::kHalf);
    Options options = fine_options(stage);
    options.loss_scaler({.initial_scale = 1});
    Optimizer optimizer({{"large", large}, {"small", small}}, {}, AdamWOptions(0.1), options, comm);
    const float tiny = std::ldexp(1.0f, -24);
    optimizer.backward(pull(large, Values{30000, 60000, 65504}) + pull(small, Values{tiny}));
    EXPECT_EQ(gradient(optimizer, "large"), (Values{30000, 60000, 65504}));
    EXPECT_EQ(gradient(optimizer, "small"), Values{tiny});
    EXPECT_TRUE(optimizer.step().applied);
    optimizer.shutdown();
  });
}

TEST(Reduction, TransposedParameterCountsInRowMajorLogicalOrder) {
  on_every_stage(2, [](const auto& comm, int stage) {
    auto p = torch::arange(6, torch::kFloat).view({2, 3}).t().requires_grad_();  // 3 x 2
    ASSERT_FALSE(p.is_contiguous());
    Optimizer optimizer({{"p", p}}, {}, AdamWOptions(0.5).weight_decay(0), fine_options(stage),
                        comm);
    optimizer.backward(pull(p, Values{0, 1, 10, 11, 20, 21}));
    Values shard_order(6, -1);
    EXPECT_EQ(gradient(optimizer, "p"), (Values{0, 1, 10, 11, 20, 21}));
    EXPECT_TRUE(optimizer.step().applied);
    optimizer.for_each_shard(StateKind::kExpAvg, [&](const ShardView& view) {
      const Values tenths{0, 1, 10, 11, 20, 21};
      for (std::int64_t i = view.begin; i < view.end; ++i) {
        EXPECT_FLOAT_EQ(view.values[static_cast<std::size_t>(i - view.begin)], 0.1f * tenths[i]);
      }
    });
    const Values before{0, 3, 1, 4, 2, 5};  // logical order; only the first element has no gradient
    const Values after = values_of(p);
    EXPECT_EQ(after[0], 0);
    for (std::size_t i = 1; i < 6; ++i) EXPECT_NEAR(after[i], before[i] - 0.5, 1e-6);
    EXPECT_FALSE(p.is_contiguous()) << "the parameter keeps its own storage";
    optimizer.shutdown();
  });
}

TEST(Unused, ZeroModeCountsAMissingGradientAsZero) {
  on_every_stage(2, [](const auto& comm, int stage) {
    auto a = parameter({1}), b = parameter({1});
    Optimizer optimizer({{"a", a}, {"b", b}}, {}, AdamWOptions(0.1), fine_options(stage), comm);
    optimizer.backward(comm->rank() == 0 ? pull(a, Values{2})
                                         : pull(a, Values{4}) + pull(b, Values{6}));
    EXPECT_EQ(gradient(optimizer, "a"), Values{3});
    EXPECT_EQ(gradient(optimizer, "b"), Values{3});
    EXPECT_DOUBLE_EQ(optimizer.step().grad_norm, std::sqrt(18.0));
    optimizer.shutdown();
  });
}

TEST(Unused, ZeroModeLeavesNothingOfAnEarlierWindow) {
  on_every_stage(2, [](const auto& comm, int stage) {
    auto a = parameter({1}), b = parameter({1});
    Optimizer optimizer({{"a", a}, {"b", b}}, {}, AdamWOptions(0.1), fine_options(stage), comm);
    optimizer.backward(pull(a, Values{2}) + pull(b, Values{6}));
    optimizer.step();
    optimizer.backward(pull(a, Values{4}));
    EXPECT_EQ(gradient(optimizer, "b"), Values{0});
    EXPECT_DOUBLE_EQ(optimizer.step().grad_norm, 4.0);
    optimizer.shutdown();
  });
}

TEST(Unused, ZeroModeStillDecaysAParameterThatNobodyUses) {
  on_every_stage(2, [](const auto& comm, int stage) {
    auto a = parameter({1}), b = parameter({1});
    Optimizer optimizer({{"a", a}, {"b", b}}, {}, AdamWOptions(0.1).weight_decay(0.1),
                        fine_options(stage), comm);
    optimizer.backward(pull(a, Values{2}));
    optimizer.step();
    EXPECT_EQ(values_of(b), Values{0.99f});
    EXPECT_EQ(exp_avg(optimizer, "b"), Values{0});
    optimizer.shutdown();
  });
}

TEST(Unused, ErrorModeNamesParameterAndRankOnEveryRank) {
  for (const int stage : {0, 1, 2}) {
    const auto messages = errors_on_ranks(2, [&](const auto& comm) {
      auto a = parameter({1}), b = parameter({1});
      Options options = fine_options(stage);
      options.unused(Unused::kError);
      Optimizer optimizer({{"a", a}, {"bee", b}}, {}, AdamWOptions(0.1), options, comm);
      optimizer.backward(comm->rank() == 0 ? pull(a, Values{2})
                                           : pull(a, Values{4}) + pull(b, Values{6}));
      try {
        optimizer.step();
      } catch (const ContractError&) {
        EXPECT_EQ(values_of(a), Values{1}) << "nothing may have moved";
        throw;
      }
    });
    for (const std::string& message : messages) {
      EXPECT_NE(message.find("bee on rank 0"), std::string::npos) << message;
    }
  }
}

TEST(Accumulation, NormIsThatOfTheWholeWindow) {
  on_every_stage(2, [](const auto& comm, int stage) {
    auto p = parameter({1, 1});
    Optimizer optimizer({{"p", p}}, {}, AdamWOptions(0.1), fine_options(stage), comm);
    // The mean of four micro-gradients 4 x [0.75, 1]: what a sum of four [0.75, 1] is elsewhere.
    for (int i = 0; i < 4; ++i) optimizer.backward(pull(p, Values{3, 4}));
    EXPECT_EQ(gradient(optimizer, "p"), (Values{3, 4}));
    const StepResult result = optimizer.step();
    EXPECT_EQ(result.grad_norm, 5.0);
    EXPECT_EQ(result.weight, 8);
    optimizer.shutdown();
  });
}

TEST(Accumulation, MicroBatchesThatDifferAddUpBeforeTheNormIsTaken) {
  on_every_stage(2, [](const auto& comm, int stage) {
    auto p = parameter({1, 1});
    Optimizer optimizer({{"p", p}}, {}, AdamWOptions(0.1), fine_options(stage), comm);
    optimizer.backward(pull(p, Values{6, 0}));
    optimizer.backward(pull(p, Values{0, 8}));
    EXPECT_EQ(optimizer.step().grad_norm, 5.0);
    EXPECT_EQ(gradient(optimizer, "p"), (Values{3, 4}));
    optimizer.shutdown();
  });
}

TEST(Accumulation, LastMicroBatchIsReducedLikeTheFirst) {
  on_every_stage(2, [](const auto& comm, int stage) {
    auto p = parameter({1, 1});
    Optimizer optimizer({{"p", p}}, {}, AdamWOptions(0.1), fine_options(stage), comm);
    const float last = comm->rank() == 0 ? 4 : 0;
    optimizer.backward(pull(p, Values{1, 2}));
    optimizer.backward(pull(p, Values{last, 2 * last}));
    EXPECT_EQ(gradient(optimizer, "p"), (Values{1.5, 3}));  // (1 + 1 + 4 + 0) / 4
    optimizer.step();
    EXPECT_FLOAT_EQ(exp_avg(optimizer, "p")[1], 0.3f);
    optimizer.shutdown();
  });
}

TEST(Accumulation, EachWindowStartsFromZero) {
  on_every_stage(2, [](const auto& comm, int stage) {
    auto p = parameter({1, 1});
    Optimizer optimizer({{"p", p}}, {}, AdamWOptions(0.1), fine_options(stage), comm);
    for (int window = 1; window <= 3; ++window) {
      const auto g = static_cast<float>(window);
      for (int i = 0; i < 2; ++i) optimizer.backward(pull(p, Values{g, -g}));
      EXPECT_EQ(gradient(optimizer, "p"), (Values{g, -g}));
      optimizer.step();
    }
    optimizer.backward(pull(p, Values{100, 100}));
    optimizer.zero_grad();
    optimizer.backward(pull(p, Values{5, 7}));
    EXPECT_EQ(gradient(optimizer, "p"), (Values{5, 7}));
    optimizer.shutdown();
  });
}

TEST(Accumulation, GradientsLeftFromBeforeTheOptimizerWasBuiltDoNotCount) {
  on_every_stage(2, [](const auto& comm, int stage) {
    auto p = parameter({1, 1});
    pull(p, Values{100, 100}).backward();
    Optimizer optimizer({{"p", p}}, {}, AdamWOptions(0.1), fine_options(stage), comm);
    optimizer.backward(pull(p, Values{5, 7}));
    EXPECT_EQ(gradient(optimizer, "p"), (Values{5, 7}));
    optimizer.shutdown();
  });
}

TEST(Accumulation, GradientsThatWereRefusedDoNotCountLater) {
  on_every_stage(2, [](const auto& comm, int stage) {
    auto p = parameter({1, 1});
    Optimizer optimizer({{"p", p}}, {}, AdamWOptions(0.1), fine_options(stage), comm);
    EXPECT_THROW(pull(p, Values{100, 100}).backward(), ContractError);
    optimizer.backward(pull(p, Values{5, 7}));
    EXPECT_EQ(gradient(optimizer, "p"), (Values{5, 7}));
    EXPECT_THROW(pull(p, Values{100, 100}).backward(), ContractError);
    optimizer.backward(pull(p, Values{7, 9}));
    EXPECT_EQ(gradient(optimizer, "p"), (Values{6, 8}));
    optimizer.shutdown();
  });
}

TEST(Weights, RaggedBatchIsTheMeanOverTokens) {
  constexpr std::int64_t kTokens[] = {3, 5, 0, 7};
  on_every_stage(2, [&](const auto& comm, int stage) {
    auto p = parameter({1, 1});
    Optimizer optimizer({{"p", p}}, {}, AdamWOptions(0.1), fine_options(stage), comm);
    for (int micro = comm->rank(); micro < 4; micro += 2) {
      const auto g = static_cast<float>(micro + 1);
      optimizer.backward(pull(p, Values{g, 10 * g}), kTokens[micro]);
    }
    // (3 * 1 + 5 * 2 + 0 * 3 + 7 * 4) / 15
    EXPECT_FLOAT_EQ(gradient(optimizer, "p")[0], 41.0f / 15);
    EXPECT_FLOAT_EQ(gradient(optimizer, "p")[1], 410.0f / 15);
    const StepResult result = optimizer.step();
    EXPECT_EQ(result.weight, 15);
    EXPECT_DOUBLE_EQ(result.loss, 11 * 41.0 / 15);
    optimizer.shutdown();
  });
}

TEST(Weights, AMicroBatchWithoutTokensCountsForNothingEvenIfItsMeanIsNotANumber) {
  on_every_stage(2, [](const auto& comm, int stage) {
    auto p = parameter({1, 1});
    Options options = fine_options(stage);
    options.unused(Unused::kError);
    Optimizer optimizer({{"p", p}}, {}, AdamWOptions(0.1), options, comm);
    optimizer.backward(pull(p, Values{2, 4}), 3);
    const bool is_empty = comm->rank() == 1;
    const float nan = std::numeric_limits<float>::quiet_NaN();  // the mean of no token at all
    optimizer.backward(pull(p, is_empty ? Values{nan, nan} : Values{5, 7}), is_empty ? 0 : 3);
    EXPECT_EQ(gradient(optimizer, "p"), (Values{3, 5}));
    const StepResult result = optimizer.step();
    EXPECT_TRUE(result.applied);
    EXPECT_EQ(result.weight, 9);
    EXPECT_DOUBLE_EQ(result.loss, (6 + 6 + 12) / 3.0);
    optimizer.shutdown();
  });
}

TEST(Sparse, EmbeddingGradientIsAnErrorThatNamesTheParameterOnEveryStage) {
  on_every_stage(2, [](const auto& comm, int stage) {
    auto dense = parameter({1});
    auto rows = torch::zeros({4, 2}).requires_grad_();
    Optimizer optimizer({{"dense", dense}, {"rows", rows}}, {}, AdamWOptions(0.1),
                        fine_options(stage), comm);
    const auto lookup = [&](bool sparse) {
      return torch::embedding(rows, torch::tensor({1}), -1, false, sparse);
    };
    const auto loss =
        comm->rank() == 0 ? pull(lookup(true), Values{1, -1}) : pull(dense, Values{1});
    try {
      optimizer.backward(loss);
      EXPECT_EQ(comm->rank(), 1);
    } catch (const ContractError& error) {
      EXPECT_EQ(comm->rank(), 0);
      EXPECT_NE(std::string(error.what()).find("rows"), std::string::npos) << error.what();
    }
    EXPECT_THROW(optimizer.step(), ContractError);
    EXPECT_EQ(values_of(dense), Values{1});
    optimizer.zero_grad();
    optimizer.backward(pull(lookup(false), Values{3, -4}));
    EXPECT_EQ(gradient(optimizer, "rows"), (Values{0, 0, 3, -4, 0, 0, 0, 0}));
    EXPECT_EQ(optimizer.step().grad_norm, 5.0);
    optimizer.shutdown();
  });
}

}  // namespace
}  // namespace zero
