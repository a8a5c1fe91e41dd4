// Gradients that are added up on each rank before they are reduced: what they are worth.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mutex>

#include "libzero/collective/recorder.h"
#include "libzero/collective/self.h"
#include "tests/optim/misuse_support.h"
#include "tests/optim/pull.h"
#include "tests/optim/toy_model.h"

namespace zero {
namespace {

using ::testing::AllOf;
using testing::Comm;
using testing::fine_options;
using ::testing::HasSubstr;
using testing::on_every_stage;
using testing::on_ranks;
using testing::parameter;
using testing::pull;
using testing::Snapshot;
using testing::snapshot;
using testing::tiny_input;
using testing::tiny_options;
using testing::toy_batch;
using testing::toy_options;
using testing::ToyModel;
using testing::Trainee;
using testing::values_of;
using Values = std::vector<float>;

/// 'h': a call inside no_sync(); 'r': one that reduces. Micro-batches are numbered as ever.
template <typename Loss>
void run_calls(Optimizer& optimizer, const std::string& calls, const Comm& comm, Loss loss) {
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const std::int64_t micro = static_cast<std::int64_t>(i) * comm->size() + comm->rank();
    if (calls[i] == 'h') {
      const auto scope = optimizer.no_sync();
      loss(micro);
    } else {
      loss(micro);
    }
  }
}

/// Gradient of element i in micro-batch `micro`: different for each, of either sign.
double prescribed(std::int64_t micro, std::int64_t i) {
  return std::sin(1.3 * static_cast<double>(micro) + 0.7 * static_cast<double>(i)) * 2;
}

std::int64_t weight_of(std::int64_t micro) {
  return 1 + micro % 3;
}

/// The mean gradient of a window in fp64, straight from its definition.
std::vector<double> reference(std::int64_t micros, std::int64_t numel) {
  std::vector<double> sum(static_cast<std::size_t>(numel), 0.0);
  double weights = 0;
  for (std::int64_t m = 0; m < micros; ++m) {
    weights += static_cast<double>(weight_of(m));
    for (std::int64_t i = 0; i < numel; ++i)
      sum[static_cast<std::size_t>(i)] += static_cast<double>(weight_of(m)) * prescribed(m, i);
  }
  for (double& value : sum) value /= weights;
  return sum;
}

TEST(NoSync, GivesTheMeanOfAFloat64ReferenceOnEveryStageWorldPrecisionAndPattern) {
  constexpr std::int64_t kNumel = 37;
  for (const int world_size : {1, 2, 3}) {
    for (const auto dtype : {torch::kFloat, torch::kBFloat16, torch::kHalf}) {
      for (const std::string calls : {"hhhr", "hrhr", "rhr", "hr"}) {
        on_every_stage(world_size, [&](const Comm& comm, int stage) {
          SCOPED_TRACE(calls + " " + c10::toString(dtype));
          auto p = parameter(Values(kNumel, 1), dtype);
          auto options = fine_options(stage).deterministic(false).wire(torch::kFloat);
          options.loss_scaler({.initial_scale = 64});
          Optimizer optimizer({{"p", p}}, {}, AdamWOptions(0.1), options, comm);
          run_calls(optimizer, calls, comm, [&](std::int64_t micro) {
            Values gradient;
            for (int i = 0; i < kNumel; ++i)
              gradient.push_back(static_cast<float>(prescribed(micro, i)));
            optimizer.backward(pull(p, gradient), weight_of(micro));
          });
          const Values mean = values_of(optimizer.gather("p", StateKind::kGradient));
          const auto expected =
              reference(static_cast<std::int64_t>(calls.size()) * comm->size(), kNumel);
          // A 16-bit gradient is rounded when autograd makes it; what adds it up is fp32.
          const double tolerance = dtype == torch::kFloat      ? 1e-6
                                   : dtype == torch::kBFloat16 ? 2.0 / 256
                                                               : 2.0 / 2048;
          for (std::size_t i = 0; i < mean.size(); ++i)
            EXPECT_NEAR(mean[i], expected[i], tolerance) << i;
          EXPECT_TRUE(optimizer.step().applied);
          optimizer.shutdown();
        });
      }
    }
  }
}

TEST(NoSync, SixteenBitGradientsAreAddedUpInFloat32) {
  for (const auto dtype : {torch::kBFloat16, torch::kHalf}) {
    on_every_stage(2, [&](const Comm& comm, int stage) {
      auto p = parameter({1, 1, 1}, dtype);
      auto options = fine_options(stage).deterministic(false).loss_scaler({.initial_scale = 1});
      Optimizer optimizer({{"p", p}}, {}, AdamWOptions(0.1), options, comm);
      // In bfloat16 1 + 1 + ... stops at 256, in float16 at 2048.
      const int calls = dtype == torch::kBFloat16 ? 512 : 4096;
      {
        const auto scope = optimizer.no_sync();
        for (int i = 1; i < calls; ++i) optimizer.backward(pull(p, Values{1, 2, 0.5}));
      }
      optimizer.backward(pull(p, Values{1, 2, 0.5}));
      EXPECT_EQ(values_of(optimizer.gather("p", StateKind::kGradient)), (Values{1, 2, 0.5}));
      optimizer.shutdown();
    });
  }
}

/// The toy model after four windows of 4 calls a rank; which of them are held is `calls`.
Snapshot trained_toy(int world_size, int stage, const std::string& calls, bool deterministic,
                     torch::Dtype dtype = torch::kFloat) {
  Snapshot result;
  std::mutex mutex;
  on_ranks(world_size, [&](const Comm& comm) {
    std::unique_lock lock(mutex);  // the default generator belongs to the process
    ToyModel model(dtype);
    lock.unlock();
    Optimizer optimizer(*model, AdamWOptions(1e-2), toy_options(stage).deterministic(deterministic),
                        comm);
    for (std::int64_t step = 0; step < 4; ++step) {
      run_calls(optimizer, calls, comm, [&](std::int64_t micro) {
        optimizer.backward(model->loss(toy_batch(step, micro)));
      });
      const StepResult outcome = optimizer.step();
      EXPECT_TRUE(outcome.applied);
      EXPECT_EQ(outcome.deterministic, calls.find('h') == calls.npos);
    }
    if (comm->rank() == 0) result = snapshot(model);
    optimizer.shutdown();
  });
  return result;
}

double furthest(const Snapshot& a, const Snapshot& b) {
  double distance = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].second.numel() == 0) continue;
    const auto difference = (a[i].second.to(torch::kDouble) - b[i].second.to(torch::kDouble));
    distance = std::max(distance, difference.abs().max().item<double>());
  }
  return distance;
}

TEST(NoSync, EqualsTheDeterministicPathUpToRounding) {
  for (const int world_size : {1, 2}) {
    const Snapshot expected = trained_toy(world_size, 2, "rrrr", true);
    for (const std::string calls : {"hhhr", "hrhr"}) {
      for (const int stage : {0, 1, 2}) {
        const Snapshot held = trained_toy(world_size, stage, calls, false);
        EXPECT_LT(furthest(expected, held), 1e-4) << calls << " stage " << stage;
      }
    }
  }
}

TEST(NoSync, StagesAgreeBitForBit) {
  for (const auto dtype : {torch::kFloat, torch::kBFloat16}) {
    const Snapshot expected = trained_toy(2, 0, "hhrhr", false, dtype);
    for (const int stage : {1, 2})
      testing::expect_same(expected, trained_toy(2, stage, "hhrhr", false, dtype));
  }
}

TEST(NoSync, OneCallAWindowGivesTheBitsOfTheDeterministicPath) {
  for (const auto dtype : {torch::kFloat, torch::kBFloat16}) {
    for (const int stage : {0, 1, 2}) {
      testing::expect_same(trained_toy(2, stage, "r", true, dtype),
                           trained_toy(2, stage, "r", false, dtype));
    }
  }
}

TEST(NoSync, SpeakingOnceAWindowCostsTheBytesOfOneCall) {
  on_every_stage(2, [](const Comm& comm, int stage) {
    const Recorded recorded = record_calls(comm);
    Trainee trainee(recorded.collective, tiny_options(stage).deterministic(false));
    const auto calls_of = [&](const std::string& calls) {
      const std::int64_t before = recorded.log->of(Operation::kReduceScatter).calls;
      run_calls(*trainee.optimizer, calls, comm, [&](std::int64_t micro) {
        trainee.optimizer->backward(trainee.model->loss(tiny_input(0, micro)));
      });
      trainee.optimizer->step();
      return recorded.log->of(Operation::kReduceScatter).calls - before;
    };
    const std::int64_t once = calls_of("r");
    EXPECT_GT(once, 1);
    EXPECT_EQ(calls_of("hhhr"), once);
    EXPECT_EQ(calls_of("rrrr"), 4 * once);
    trainee.optimizer->shutdown();
  });
}

TEST(NoSync, AParameterUsedInAnyOfTheCallsThatAreReducedTogetherIsUsed) {
  for (const auto dtype : {torch::kFloat, torch::kBFloat16}) {
    on_every_stage(2, [&](const Comm& comm, int stage) {
      auto a = parameter({1, 1}, dtype), b = parameter({1, 1}, dtype);
      auto options = fine_options(stage).deterministic(false).unused(Unused::kError);
      Optimizer optimizer({{"a", a}, {"b", b}}, {}, AdamWOptions(0.1), options, comm);
      {
        const auto scope = optimizer.no_sync();
        optimizer.backward(pull(b, Values{4, 8}));
      }
      optimizer.backward(pull(a, Values{2, 6}));
      EXPECT_EQ(values_of(optimizer.gather("a", StateKind::kGradient)), (Values{1, 3}));
      EXPECT_EQ(values_of(optimizer.gather("b", StateKind::kGradient)), (Values{2, 4}));
      EXPECT_TRUE(optimizer.step().applied);
      optimizer.shutdown();
    });
  }
}

TEST(NoSync, AParameterUsedInNoneOfThemIsUnused) {
  on_every_stage(2, [](const Comm& comm, int stage) {
    auto a = parameter({1, 1}), b = parameter({1, 1});
    auto options = fine_options(stage).deterministic(false).unused(Unused::kError);
    Optimizer optimizer({{"a", a}, {"b", b}}, {}, AdamWOptions(0.1), options, comm);
    {
      const auto scope = optimizer.no_sync();
      optimizer.backward(pull(a, Values{4, 8}));
    }
    optimizer.backward(pull(a, Values{1, 1}), 0);  // expects nothing, but the held call did
    EXPECT_THAT(testing::thrown<ContractError>([&] { optimizer.step(); }),
                AllOf(HasSubstr("received no gradient"), HasSubstr("parameter b")));
    optimizer.backward(pull(a, Values{1, 1}) + pull(b, Values{1, 1}));
    EXPECT_TRUE(optimizer.step().applied);
    optimizer.shutdown();
  });
}

TEST(NoSync, AnInfiniteGradientInAHeldCallIsSkippedOnEveryRank) {
  for (const auto dtype : {torch::kFloat, torch::kHalf, torch::kBFloat16}) {
    on_every_stage(2, [&](const Comm& comm, int stage) {
      auto p = parameter({1, 1}, dtype);
      Optimizer optimizer({{"p", p}}, {}, AdamWOptions(0.1),
                          fine_options(stage).deterministic(false), comm);
      {
        const auto scope = optimizer.no_sync();
        const float infinity = std::numeric_limits<float>::infinity();
        optimizer.backward(pull(p, Values{1, comm->rank() == 1 ? infinity : 1}));
      }
      optimizer.backward(pull(p, Values{1, 1}));
      const StepResult result = optimizer.step();
      EXPECT_FALSE(result.applied);
      EXPECT_EQ(result.overflow_parameter, "p");
      optimizer.backward(pull(p, Values{1, 1}));
      EXPECT_TRUE(optimizer.step().applied);
      optimizer.shutdown();
    });
  }
}

TEST(NoSync, OnlySixteenBitParametersTakeMemoryForIt) {
  for (const auto dtype : {torch::kFloat, torch::kBFloat16}) {
    on_every_stage(1, [&](const Comm& comm, int stage) {
      auto p = parameter(Values(100, 1), dtype);
      Optimizer optimizer({{"p", p}}, {}, AdamWOptions(0.1),
                          fine_options(stage).deterministic(false), comm);
      const std::int64_t before = optimizer.memory().total();
      for (int window = 0; window < 2; ++window) {
        {
          const auto scope = optimizer.no_sync();
          optimizer.backward(p.sum());
        }
        optimizer.backward(p.sum());
        optimizer.step();
        const std::int64_t expected = dtype == torch::kFloat ? 0 : 400;
        EXPECT_EQ(optimizer.memory().local_sums, expected);
        EXPECT_EQ(optimizer.memory().total(), before + expected);
      }
      optimizer.shutdown();
    });
  }
}

TEST(NoSync, TheLogSaysWhichOrderIsUsed) {
  for (const bool deterministic : {true, false}) {
    std::vector<std::string> lines;
    auto p = parameter({1});
    Options options = Options().deterministic(deterministic);
    options.log([&](LogLevel, std::string_view line) { lines.emplace_back(line); });
    Optimizer optimizer({{"p", p}}, {}, AdamWOptions(0.1), options, make_self());
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_THAT(lines.front(), HasSubstr(deterministic ? "sums in the order of the global batch"
                                                       : "deterministic(false)"));
    optimizer.shutdown();
  }
}

}  // namespace
}  // namespace zero
