#include "libzero/kernels/adamw.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "libzero/base/error.h"
#include "libzero/base/float16.h"

namespace zero {
namespace {

using ::testing::HasSubstr;

/// Parameters and moments of one run, in fp32 or, as the reference, in fp64.
template <typename T>
struct State {
  std::vector<T> p, m, v;
};

State<float> random_state(std::size_t n, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  State<float> state;
  for (std::size_t i = 0; i < n; ++i) {
    state.p.push_back(normal(random));
    state.m.push_back(0.1f * normal(random));
    state.v.push_back(std::fabs(0.01f * normal(random)));
  }
  return state;
}

std::vector<float> random_gradient(std::size_t n, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> gradient(n);
  for (float& g : gradient) g = normal(random);
  return gradient;
}

/// The textbook's formulas in doubles: bias-corrected moments, each by its own name.
void reference_step(const AdamWHyperparameters& h, std::int64_t t, const std::vector<float>& raw,
                    double factor, State<double>& s) {
  const double correction1 = -std::expm1(static_cast<double>(t) * std::log(h.beta1));
  const double correction2 = -std::expm1(static_cast<double>(t) * std::log(h.beta2));
  for (std::size_t i = 0; i < raw.size(); ++i) {
    const double g = static_cast<double>(raw[i]) * factor;
    s.m[i] = h.beta1 * s.m[i] + (1 - h.beta1) * g;
    s.v[i] = h.beta2 * s.v[i] + (1 - h.beta2) * g * g;
    const double m_hat = s.m[i] / correction1;
    const double v_hat = s.v[i] / correction2;
    s.p[i] = s.p[i] - h.lr * h.weight_decay * s.p[i] - h.lr * m_hat / (std::sqrt(v_hat) + h.eps);
  }
}

AdamWRun run_of(const std::vector<float>& g, float factor, State<float>& s) {
  AdamWRun run;
  run.gradient = g.data();
  run.gradient_factor = factor;
  run.master = s.p.data();
  run.exp_avg = s.m.data();
  run.exp_avg_sq = s.v.data();
  run.n = static_cast<std::int64_t>(g.size());
  return run;
}

void step(const AdamWConstants& c, const std::vector<float>& g, float factor, State<float>& s) {
  adamw_step(c, run_of(g, factor, s));
}

void expect_near(const std::vector<float>& actual, const std::vector<double>& expected,
                 double tolerance, const char* what) {
  for (std::size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(static_cast<double>(actual[i]), expected[i],
                tolerance * (0.1 + std::fabs(expected[i])))
        << what << " " << i;
  }
}

TEST(AdamW, FollowsTheFp64ReferenceOverFiftySteps) {
  const AdamWHyperparameters h = {
      .lr = 3e-3, .beta1 = 0.85, .beta2 = 0.97, .eps = 1e-6, .weight_decay = 0.3};
  constexpr std::size_t kCount = 1003;
  State<float> state = random_state(kCount, 1);
  state.m.assign(kCount, 0);
  state.v.assign(kCount, 0);
  State<double> expected = {
      {state.p.begin(), state.p.end()}, std::vector<double>(kCount), std::vector<double>(kCount)};
  for (std::int64_t t = 1; t <= 50; ++t) {
    const auto gradient = random_gradient(kCount, static_cast<std::uint32_t>(t));
    step(adamw_constants(h, t), gradient, 0.25f, state);
    reference_step(h, t, gradient, 0.25, expected);
    expect_near(state.m, expected.m, 1e-6, "exp_avg");
    expect_near(state.v, expected.v, 1e-6, "exp_avg_sq");
    expect_near(state.p, expected.p, 5e-6, "master");
  }
}

TEST(AdamW, ConstantsAreRightBeyond2To16Steps) {
  // beta2 so near to 1 that the bias correction still matters.
  const AdamWHyperparameters h = {.lr = 0.01, .beta1 = 0.9999, .beta2 = 0.99999};
  for (const std::int64_t t : {1, 2, 3, 10, 256, 2048, 65535, 65536, 65537, 70000, 1000000}) {
    const AdamWConstants c = adamw_constants(h, t);
    const double correction1 = -std::expm1(static_cast<double>(t) * std::log(h.beta1));
    const double correction2 = -std::expm1(static_cast<double>(t) * std::log(h.beta2));
    EXPECT_FLOAT_EQ(c.step_size, static_cast<float>(h.lr / correction1)) << t;
    EXPECT_FLOAT_EQ(c.sqrt_bias_correction2, static_cast<float>(std::sqrt(correction2))) << t;
  }
  EXPECT_NE(adamw_constants(h, 65536).sqrt_bias_correction2,
            adamw_constants(h, 70000).sqrt_bias_correction2);
  const AdamWConstants late = adamw_constants(h, std::int64_t{1} << 40);
  EXPECT_EQ(late.step_size, 0.01f);
  EXPECT_EQ(late.sqrt_bias_correction2, 1.0f);
}

TEST(AdamW, ConstantsAreCalculatedInDoublesAndRoundedOnce) {
  const AdamWConstants c = adamw_constants({.lr = 3e-4, .weight_decay = 0.1}, 1);
  EXPECT_EQ(c.one_minus_beta2, 0.001f);
  EXPECT_NE(c.one_minus_beta2, 1.0f - 0.999f);
  EXPECT_EQ(c.one_minus_beta1, 0.1f);
  EXPECT_EQ(c.decay, static_cast<float>(1 - 3e-4 * 0.1));
  EXPECT_EQ(c.eps, 1e-8f);
}

TEST(AdamW, TheEleventhStepUsesTheRestoredCounter) {
  const AdamWHyperparameters h = {.lr = 0.1, .weight_decay = 0};
  State<float> state = {{1.0f}, {0.0f}, {0.0f}};
  for (std::int64_t t = 1; t <= 10; ++t) step(adamw_constants(h, t), {1.0f}, 1.0f, state);
  const State<float> saved = state;

  const AdamWConstants eleventh = adamw_constants(h, 11);
  EXPECT_NEAR(0.1 / static_cast<double>(eleventh.step_size), 0.6861894, 1e-6);
  step(eleventh, {1.0f}, 1.0f, state);
  EXPECT_NEAR(state.p[0] - saved.p[0], -0.1, 1e-6);
  EXPECT_NEAR(state.m[0], 1 - std::pow(0.9, 11), 1e-6);

  State<float> reset = saved;
  step(adamw_constants(h, 1), {1.0f}, 1.0f, reset);
  EXPECT_NEAR(reset.p[0] - saved.p[0], -0.2074, 1e-4);
}

TEST(AdamW, DecayIsDecoupledAndMultipliedByTheLearningRate) {
  State<float> state = {{1.0f}, {0.0f}, {0.0f}};
  step(adamw_constants({.lr = 0.1, .weight_decay = 0.01}, 1), {0.5f}, 1.0f, state);
  EXPECT_FLOAT_EQ(state.m[0], 0.05f);  // 0.051 if the decay went through the gradient.
  EXPECT_FLOAT_EQ(state.v[0], 0.00025f);
  EXPECT_FLOAT_EQ(state.p[0], 0.899f);
}

TEST(AdamW, TheGradientFactorReachesBothMoments) {
  State<float> state = {{1.0f, 1.0f}, {0.0f, 0.0f}, {0.0f, 0.0f}};
  step(adamw_constants({}, 1), {8.0f, -16.0f}, 0.125f, state);
  EXPECT_FLOAT_EQ(state.m[0], 0.1f);
  EXPECT_FLOAT_EQ(state.m[1], -0.2f);
  EXPECT_FLOAT_EQ(state.v[0], 0.001f);
  EXPECT_FLOAT_EQ(state.v[1], 0.004f);
}

TEST(AdamW, ZerosStayZeros) {
  State<float> state = {{0.0f}, {0.0f}, {0.0f}};
  step(adamw_constants({}, 1), {0.0f}, 1.0f, state);
  EXPECT_EQ(state.p[0], 0.0f);
  EXPECT_EQ(state.m[0], 0.0f);
  EXPECT_EQ(state.v[0], 0.0f);
}

/// Each operation through a volatile: no compiler can vectorise or fuse it.
void one_rounding_each(const AdamWConstants& c, float raw, float factor, float& p, float& m,
                       float& v) {
  volatile float g = raw * factor;
  volatile float decayed = p * c.decay;
  volatile float a = c.beta1 * m;
  volatile float b = c.one_minus_beta1 * g;
  m = a + b;
  volatile float d = c.beta2 * v;
  volatile float e = c.one_minus_beta2 * g;
  volatile float f = e * g;
  v = d + f;
  volatile float root = std::sqrt(v);
  volatile float scaled = root / c.sqrt_bias_correction2;
  volatile float denominator = scaled + c.eps;
  volatile float numerator = c.step_size * m;
  volatile float update = numerator / denominator;
  p = decayed - update;
}

RC_GTEST_PROP(AdamWProperty, TheBitsAreThoseOfOneRoundingForEachOperation, ()) {
  const auto n = *rc::gen::inRange<std::size_t>(0, 100);
  const auto seed = *rc::gen::arbitrary<std::uint32_t>();
  const AdamWHyperparameters h = {.lr = 1e-3, .weight_decay = *rc::gen::element(0.0, 0.1)};
  const AdamWConstants c = adamw_constants(h, *rc::gen::inRange(1, 100000));
  const auto gradient = random_gradient(n, seed);
  State<float> state = random_state(n, seed + 1);
  State<float> expected = state;
  step(c, gradient, 0.37f, state);
  for (std::size_t i = 0; i < n; ++i) {
    one_rounding_each(c, gradient[i], 0.37f, expected.p[i], expected.m[i], expected.v[i]);
  }
  RC_ASSERT(state.p == expected.p);
  RC_ASSERT(state.m == expected.m);
  RC_ASSERT(state.v == expected.v);
}

RC_GTEST_PROP(AdamWProperty, CuttingARunInPiecesGivesTheSameBits, ()) {
  const auto n = *rc::gen::inRange<std::int64_t>(1, 300);
  const auto cut = *rc::gen::inRange<std::int64_t>(0, n + 1);
  const AdamWConstants c = adamw_constants({}, 3);
  const auto gradient = random_gradient(static_cast<std::size_t>(n), 5);
  State<float> whole = random_state(static_cast<std::size_t>(n), 6);
  State<float> pieces = whole;
  step(c, gradient, 1.5f, whole);
  AdamWRun run = run_of(gradient, 1.5f, pieces);
  run.n = cut;
  adamw_step(c, run);
  run.gradient = gradient.data() + cut;
  run.master += cut;
  run.exp_avg += cut;
  run.exp_avg_sq += cut;
  run.n = n - cut;
  adamw_step(c, run);
  RC_ASSERT(whole.p == pieces.p);
  RC_ASSERT(whole.m == pieces.m);
  RC_ASSERT(whole.v == pieces.v);
}

class AdamWCopy : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Formats, AdamWCopy, ::testing::Values(DType::kBFloat16, DType::kFloat16),
                         [](const auto& test) { return std::string(name_of(test.param)); });

TEST_P(AdamWCopy, IsTheRoundedMasterAndTheMastersAreThoseOfThePlainStep) {
  const AdamWConstants c = adamw_constants({}, 7);
  for (const std::size_t n : {0u, 1u, 5u, 1023u, 1024u, 1025u, 3000u}) {
    const auto gradient = random_gradient(n, 8);
    State<float> plain = random_state(n, 9);
    State<float> state = plain;
    std::vector<std::uint16_t> copy(n + 1, 0xabcd);
    step(c, gradient, 1.0f, plain);
    AdamWRun run = run_of(gradient, 1.0f, state);
    run.low_precision = copy.data();
    run.low_precision_dtype = GetParam();
    adamw_step(c, run);
    ASSERT_EQ(state.p, plain.p);
    ASSERT_EQ(state.m, plain.m);
    ASSERT_EQ(state.v, plain.v);
    for (std::size_t i = 0; i < n; ++i) {
      ASSERT_EQ(copy[i], GetParam() == DType::kBFloat16 ? bfloat16_from_float(plain.p[i])
                                                        : float16_from_float(plain.p[i]));
    }
    ASSERT_EQ(copy[n], 0xabcd) << "written past the end";
  }
}

TEST(AdamW, AnotherDtypeOfTheCopyIsRefusedBeforeAnythingIsWritten) {
  State<float> state = random_state(4, 1);
  const State<float> before = state;
  const std::vector<float> gradient(4, 1.0f);
  std::vector<float> copy(4);
  for (const DType dtype : {DType::kFloat32, DType::kInt64, DType::kUInt8}) {
    AdamWRun run = run_of(gradient, 1.0f, state);
    run.low_precision = copy.data();
    run.low_precision_dtype = dtype;
    EXPECT_THROW(adamw_step(adamw_constants({}, 1), run), ContractError);
  }
  EXPECT_EQ(state.p, before.p);
  EXPECT_EQ(state.m, before.m);
}

class AdamWGradient : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Formats, AdamWGradient,
                         ::testing::Values(DType::kBFloat16, DType::kFloat16),
                         [](const auto& test) { return std::string(name_of(test.param)); });

TEST_P(AdamWGradient, GivesTheBitsOfTheSameGradientWidened) {
  constexpr std::size_t kCount = 1037;
  std::vector<std::uint16_t> narrow;
  std::vector<float> wide;
  for (const float g : random_gradient(kCount, 3)) {
    const bool is_bfloat16 = GetParam() == DType::kBFloat16;
    narrow.push_back(is_bfloat16 ? bfloat16_from_float(g) : float16_from_float(g));
    wide.push_back(is_bfloat16 ? float_from_bfloat16(narrow.back())
                               : float_from_float16(narrow.back()));
  }
  State<float> expected = random_state(kCount, 4);
  State<float> state = expected;
  const AdamWConstants c = adamw_constants({}, 2);
  step(c, wide, 0.5f, expected);
  AdamWRun run = run_of(wide, 0.5f, state);
  run.gradient = narrow.data();
  run.gradient_dtype = GetParam();
  adamw_step(c, run);
  EXPECT_EQ(state.p, expected.p);
  EXPECT_EQ(state.m, expected.m);
  EXPECT_EQ(state.v, expected.v);
}

/// The copy's format is the copy's, whatever the gradient's.
TEST_P(AdamWGradient, LeavesTheFormatOfTheCopyAlone) {
  constexpr std::size_t kCount = 37;
  const std::vector<std::uint16_t> gradient(kCount, 0x3c80);  // a number in both formats
  for (const DType copy_dtype : {DType::kBFloat16, DType::kFloat16}) {
    State<float> state = random_state(kCount, 11);
    std::vector<std::uint16_t> copy(kCount);
    AdamWRun run = run_of(state.p, 1.0f, state);
    run.gradient = gradient.data();
    run.gradient_dtype = GetParam();
    run.low_precision = copy.data();
    run.low_precision_dtype = copy_dtype;
    adamw_step(adamw_constants({}, 1), run);
    for (std::size_t i = 0; i < kCount; ++i) {
      ASSERT_EQ(copy[i], copy_dtype == DType::kBFloat16 ? bfloat16_from_float(state.p[i])
                                                        : float16_from_float(state.p[i]))
          << name_of(copy_dtype) << " " << i;
    }
  }
}

TEST(AdamW, AGradientOfIntegersIsRefusedBeforeAnythingIsWritten) {
  State<float> state = random_state(4, 1);
  const State<float> before = state;
  const std::vector<float> gradient(4, 1.0f);
  AdamWRun run = run_of(gradient, 1.0f, state);
  run.gradient_dtype = DType::kInt64;
  EXPECT_THROW(adamw_step(adamw_constants({}, 1), run), ContractError);
  EXPECT_EQ(state.p, before.p);
}

TEST(AdamW, OptionsOutOfRangeAreRefusedByName) {
  const auto error_of = [](const AdamWHyperparameters& h, std::int64_t t) -> std::string {
    try {
      adamw_constants(h, t);
    } catch (const ContractError& error) {
      return error.what();
    }
    return "no error";
  };
  const double nan = std::nan("");
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double bad : {-1.0, nan, infinity}) {
    EXPECT_THAT(error_of({.lr = bad}, 1), HasSubstr(": lr is "));
    EXPECT_THAT(error_of({.eps = bad}, 1), HasSubstr(": eps is "));
    EXPECT_THAT(error_of({.weight_decay = bad}, 1), HasSubstr(": weight_decay is "));
  }
  for (const double bad : {-0.1, 1.0, 1 - 1e-9, nan, infinity}) {
    EXPECT_THAT(error_of({.beta1 = bad}, 1), HasSubstr(": beta1 is "));
    EXPECT_THAT(error_of({.beta2 = bad}, 1), HasSubstr(": beta2 is "));
  }
  EXPECT_THAT(error_of({}, 0), HasSubstr("applied steps"));
  EXPECT_EQ(error_of({.lr = 0, .beta1 = 0, .beta2 = 0, .eps = 0, .weight_decay = 0}, 1),
            "no error");
}

}  // namespace
}  // namespace zero
