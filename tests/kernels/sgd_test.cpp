#include "libzero/kernels/sgd.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "instruction_sets.h"
#include "libzero/base/error.h"
#include "libzero/base/float16.h"
#include "libzero/kernels/sgd_math.h"

namespace zero {
namespace {

using ::testing::HasSubstr;

struct Mode {
  double momentum;
  bool nesterov;
};
constexpr Mode kModes[] = {{0, false}, {0.9, false}, {0.9, true}};

std::vector<float> numbers(std::size_t n, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

/// Parameters and buffer; no buffer where there is no momentum.
struct State {
  State(std::size_t n, const Mode& mode) : p(numbers(n, 1)), b(mode.momentum > 0 ? n : 0) {}

  SGDRun run(const std::vector<float>& gradient, float factor) {
    SGDRun run;
    run.gradient = gradient.data();
    run.gradient_factor = factor;
    run.master = p.data();
    run.momentum_buffer = b.empty() ? nullptr : b.data();
    run.n = static_cast<std::int64_t>(p.size());
    return run;
  }

  std::vector<float> p, b;
};

SGDConstants constants_of(const Mode& mode, double lr = 0.01, double weight_decay = 0.3) {
  return sgd_constants({.lr = lr,
                        .momentum = mode.momentum,
                        .weight_decay = weight_decay,
                        .nesterov = mode.nesterov});
}

TEST(SGD, FollowsTheFp64ReferenceOverFiftySteps) {
  constexpr std::size_t kCount = 1003;
  constexpr double kLr = 0.01, kDecay = 0.3, kFactor = 0.25;
  for (const Mode& mode : kModes) {
    State state(kCount, mode);
    std::vector<double> p(state.p.begin(), state.p.end()), velocity(kCount);
    for (std::uint32_t t = 1; t <= 50; ++t) {
      const auto gradient = numbers(kCount, t);
      sgd_step(constants_of(mode, kLr, kDecay), state.run(gradient, kFactor));
      for (std::size_t i = 0; i < kCount; ++i) {
        // Sutskever's form: the velocity contains lr, and has the other sign.
        const double g = gradient[i] * kFactor;
        velocity[i] = mode.momentum * velocity[i] - kLr * g;
        const double move = mode.nesterov ? mode.momentum * velocity[i] - kLr * g : velocity[i];
        p[i] = p[i] - kLr * kDecay * p[i] + move;
      }
    }
    for (std::size_t i = 0; i < kCount; ++i) {
      ASSERT_NEAR(state.p[i], p[i], 3e-6 * (0.1 + std::fabs(p[i]))) << i;
      if (state.b.empty()) continue;
      ASSERT_NEAR(-kLr * state.b[i], velocity[i], 3e-6 * (0.01 + std::fabs(velocity[i]))) << i;
    }
  }
}

class SGDFormats : public ::testing::TestWithParam<std::tuple<DType, std::optional<DType>>> {};
INSTANTIATE_TEST_SUITE_P(
    , SGDFormats,
    ::testing::Combine(::testing::Values(DType::kFloat32, DType::kBFloat16, DType::kFloat16),
                       ::testing::Values(std::nullopt, std::optional(DType::kBFloat16),
                                         std::optional(DType::kFloat16))));

/// One element after the other, by plain C++.
struct Twin {
  void step(const SGDConstants& c, const std::vector<float>& gradient, float factor) {
    for (std::size_t i = 0; i < p.size(); ++i) {
      if (b.empty()) {
        p[i] = sgd_element(c, factor, gradient[i], p[i]);
      } else {
        const SGDElement next = sgd_element(c, factor, gradient[i], {p[i], b[i]});
        p[i] = next.p;
        b[i] = next.b;
      }
    }
  }
  std::vector<float> p, b;
};

std::uint16_t narrow(DType dtype, float value) {
  return dtype == DType::kBFloat16 ? bfloat16_from_float(value) : float16_from_float(value);
}

TEST_P(SGDFormats, EveryInstructionSetHasTheBitsOfPlainCodeForRunsOfAnyLength) {
  const auto [gradient_dtype, copy_dtype] = GetParam();
  for (const std::int64_t target : instruction_sets()) {
    const OnInstructionSet scope(target);
    for (const Mode& mode : kModes) {
      for (const std::size_t n : {1u, 15u, 16u, 17u, 250u}) {
        State state(n, mode);
        Twin twin{state.p, state.b};
        std::vector<std::uint16_t> copy(n + 1, 0xabcd);
        for (std::uint32_t t = 1; t <= 20; ++t) {
          auto gradient = numbers(n, t);
          std::vector<std::uint16_t> narrowed;
          SGDRun run = state.run(gradient, 0.37f);
          if (gradient_dtype != DType::kFloat32) {
            for (float& g : gradient) {
              narrowed.push_back(narrow(gradient_dtype, g));
              g = gradient_dtype == DType::kBFloat16 ? float_from_bfloat16(narrowed.back())
                                                     : float_from_float16(narrowed.back());
            }
            run.gradient = narrowed.data();
            run.gradient_dtype = gradient_dtype;
          }
          if (copy_dtype) {
            run.low_precision = copy.data();
            run.low_precision_dtype = *copy_dtype;
          }
          sgd_step(constants_of(mode), run);
          twin.step(constants_of(mode), gradient, 0.37f);
        }
        for (std::size_t i = 0; i < n; ++i) {
          ASSERT_EQ(std::bit_cast<std::uint32_t>(state.p[i]),
                    std::bit_cast<std::uint32_t>(twin.p[i]))
              << hwy::TargetName(target) << " element " << i << " of " << n;
          if (copy_dtype) ASSERT_EQ(copy[i], narrow(*copy_dtype, twin.p[i]));
        }
        ASSERT_EQ(state.b, twin.b);
        ASSERT_EQ(copy[n], 0xabcd) << "written past the end";
      }
    }
  }
}

TEST(SGD, ARunCutInPiecesHasTheSameBits) {
  for (const Mode& mode : kModes) {
    State whole(1000, mode), cut(1000, mode);
    const auto gradient = numbers(1000, 7);
    const SGDConstants c = constants_of(mode);
    sgd_step(c, whole.run(gradient, 0.5f));
    for (const auto& [begin, end] : {std::pair{0, 3}, {3, 500}, {500, 501}, {501, 1000}}) {
      SGDRun run = cut.run(gradient, 0.5f);
      run.gradient = gradient.data() + begin;
      run.master += begin;
      if (run.momentum_buffer != nullptr) run.momentum_buffer += begin;
      run.n = end - begin;
      sgd_step(c, run);
    }
    EXPECT_EQ(whole.p, cut.p);
    EXPECT_EQ(whole.b, cut.b);
  }
}

TEST(SGD, WithoutMomentumABufferMakesNoDifferenceToTheWeights) {
  State without(257, kModes[0]), with(257, kModes[1]);
  for (std::uint32_t t = 1; t <= 5; ++t) {
    const auto gradient = numbers(257, t);
    sgd_step(constants_of(kModes[0]), without.run(gradient, 1));
    sgd_step(constants_of(kModes[0]), with.run(gradient, 1));
    EXPECT_EQ(with.b, gradient) << "the last gradient";
  }
  EXPECT_EQ(without.p, with.p);
}

TEST(SGD, DecayIsDecoupledAndMultipliedByTheLearningRate) {
  State state(1, kModes[1]);
  state.p = {1.0f};
  const std::vector<float> gradient = {0.5f};
  sgd_step(sgd_constants({.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01}),
           state.run(gradient, 1));
  EXPECT_EQ(state.b[0], 0.5f) << "0.51 if the decay went through the gradient";
  EXPECT_FLOAT_EQ(state.p[0], 1 - 0.001f - 0.05f);
}

TEST(SGD, WhatCannotBeSteppedIsRefusedBeforeAnythingIsWritten) {
  State state(4, kModes[1]);
  const State before = state;
  const std::vector<float> gradient(4, 1.0f);
  const SGDConstants c = constants_of(kModes[1]);
  SGDRun run = state.run(gradient, 1);
  run.gradient_dtype = DType::kInt64;
  EXPECT_THROW(sgd_step(c, run), ContractError);
  run = state.run(gradient, 1);
  run.low_precision = &run;
  run.low_precision_dtype = DType::kFloat32;
  EXPECT_THROW(sgd_step(c, run), ContractError);
  run = state.run(gradient, 1);
  run.momentum_buffer = nullptr;
  EXPECT_THROW(sgd_step(c, run), ContractError);
  EXPECT_EQ(state.p, before.p);
  EXPECT_EQ(state.b, before.b);
}

TEST(SGD, OptionsOutOfRangeAreRefusedByName) {
  const auto error_of = [](const SGDHyperparameters& h) -> std::string {
    try {
      sgd_constants(h);
    } catch (const ContractError& error) {
      return error.what();
    }
    return "no error";
  };
  const double nan = std::nan("");
  for (const double bad : {-1.0, nan, std::numeric_limits<double>::infinity()}) {
    EXPECT_THAT(error_of({.lr = bad}), HasSubstr(": lr is "));
    EXPECT_THAT(error_of({.weight_decay = bad}), HasSubstr(": weight_decay is "));
  }
  for (const double bad : {-0.1, 1.0, 1 - 1e-9, nan}) {
    EXPECT_THAT(error_of({.momentum = bad}), HasSubstr(": momentum is "));
  }
  EXPECT_THAT(error_of({.nesterov = true}), HasSubstr("nesterov needs a momentum"));
  EXPECT_EQ(error_of({.lr = 0}), "no error");
}

}  // namespace
}  // namespace zero
