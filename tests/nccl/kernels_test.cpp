// The bodies of the CUDA kernels, run on the host: the bits of the CPU's kernels.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include "libzero/collective/ordered_sum.h"
#include "libzero/kernels/adamw.h"
#include "libzero/kernels/block_norm.h"
#include "libzero/kernels/cast.h"
#include "libzero/kernels/cuda/step_body.h"
#include "libzero/kernels/ema.h"
#include "libzero/kernels/sgd.h"
#include "libzero/kernels/sum.h"
#include "libzero/optim/decision.h"
#include "libzero/optim/exact_sum.h"
#include "tests/nccl/around.h"
#include "tests/nccl/fake/apis.h"
#include "tests/nccl/fake/streams.h"

namespace zero::nccl_test {
namespace {

const bool kAround = Around::every_test(std::chrono::microseconds(0));

constexpr DType kFloats[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};

/// Launches on a stream of its own and waits.
template <class Args>
void launch(int (*kernel)(const Args*, cuda::Stream), const Args& args) {
  FakeStream stream(0);
  ASSERT_EQ(kernel(&args, &stream), 0);
  while (!stream.idle()) std::this_thread::yield();
}

/// Floats of all magnitudes, and all that is special.
std::vector<float> special_values() {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kSmall = std::numeric_limits<float>::denorm_min();
  constexpr float kMin = std::numeric_limits<float>::min();
  constexpr float kMax = std::numeric_limits<float>::max();
  std::vector<float> values = {0.0f,     1.0f,      0x1p-24f,       0x1p-25f,       65504.0f,
                               65519.9f, 65520.0f,  kSmall,         kMin,           kMin - kSmall,
                               kMax,     kInfinity, 1.0f + 0x1p-8f, 1.0f + 0x1p-9f, 1e-8f,
                               3.3e38f,  1e-20f,    1e19f};
  const std::size_t count = values.size();
  for (std::size_t i = 0; i < count; ++i) values.push_back(-values[i]);
  values.push_back(std::numeric_limits<float>::quiet_NaN());
  return values;
}

/// Equal bits; NaN only where the other has one.
bool same(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

/// Bytes of `values` in another type.
std::vector<std::byte> as_type(const std::vector<float>& values, DType dtype) {
  std::vector<std::byte> bytes(values.size() * static_cast<std::size_t>(size_of(dtype)));
  cast_elements(values.data(), DType::kFloat32, bytes.data(), dtype,
                static_cast<std::int64_t>(values.size()));
  return bytes;
}

std::vector<float> random_floats(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    value = std::ldexp(static_cast<float>(random() >> 40) * 0x1p-24f - 0.5f,
                       static_cast<int>(random() % 13));
  }
  return values;
}

RC_GTEST_PROP(NcclKernels, OrderedSumHasTheBitsOfSumParts, ()) {
  const auto ranks = *rc::gen::inRange<std::size_t>(1, 9);
  const auto count = *rc::gen::inRange<std::size_t>(1, 700);
  const auto own = *rc::gen::inRange<int>(-1, static_cast<int>(ranks));
  const DType dtype =
      *rc::gen::elementOf(std::vector<DType>(std::begin(kFloats), std::end(kFloats)));
  const bool accumulate = *rc::gen::arbitrary<bool>();
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const std::size_t stride = count + 5;
  std::vector<float> all = random_floats(ranks * stride, seed);
  const std::vector<std::byte> parts = as_type(all, dtype);
  const auto part = [&](std::size_t r) {
    return parts.data() + r * stride * static_cast<std::size_t>(size_of(dtype));
  };
  std::vector<std::byte> apart(parts);  // the own part, elsewhere
  std::vector<const void*> at;
  for (std::size_t r = 0; r < ranks; ++r) at.push_back(part(r));
  std::vector<float> expected = random_floats(count, seed + 1);
  std::vector<float> sums = expected;
  std::vector<double> expected_squares(count / 64 + 1), squares(count / 64 + 1);
  const auto n = static_cast<std::int64_t>(count);
  sum_parts(at, dtype, expected.data(), n, accumulate, expected_squares.data());
  cuda::OrderedSum args;
  args.parts = parts.data();
  args.stride = static_cast<std::int64_t>(stride);
  args.own_rank = own;
  if (own >= 0) args.own = apart.data() + (part(static_cast<std::size_t>(own)) - parts.data());
  args.ranks = static_cast<std::int32_t>(ranks);
  args.dtype = dtype;
  args.accumulate = accumulate ? 1 : 0;
  args.out = sums.data();
  args.count = n;
  args.block_squares = squares.data();
  launch(fake_kernels().ordered_sum, args);
  for (std::size_t i = 0; i < count; ++i) RC_ASSERT(same(sums[i], expected[i]));
  for (std::size_t b = 0; b < (count + 63) / 64; ++b) RC_ASSERT(squares[b] == expected_squares[b]);
}

TEST(NcclKernels, OrderedReduceHasTheBitsOfTheHosts) {
  constexpr std::int64_t kRanks = 3, kCount = 129;
  for (const DType dtype : kFloats) {
    const auto parts = as_type(random_floats(kRanks * kCount, 5), dtype);
    std::vector<std::byte> expected(static_cast<std::size_t>(kCount * size_of(dtype)));
    std::vector<std::byte> result(expected.size());
    std::vector<const void*> at;
    for (std::int64_t r = 0; r < kRanks; ++r)
      at.push_back(parts.data() + r * kCount * size_of(dtype));
    void* out = expected.data();
    ordered_reduce(at, dtype, ReduceOp::kSum, {&out, 1}, kCount);
    launch(fake_kernels().ordered_reduce,
           {parts.data(), kCount, kRanks, 0, dtype, result.data(), kCount});
    EXPECT_EQ(result, expected) << name_of(dtype);
  }
}

TEST(NcclKernels, IntegersWrapAroundAndKnowTheirMaximum) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  const std::vector<std::int64_t> parts = {kMax, -5, 1, -4};
  std::vector<std::int64_t> out(2);
  launch(fake_kernels().ordered_reduce, {parts.data(), 2, 2, 0, DType::kInt64, out.data(), 2});
  EXPECT_EQ(out, (std::vector<std::int64_t>{std::numeric_limits<std::int64_t>::min(), -9}));
  launch(fake_kernels().ordered_reduce, {parts.data(), 2, 2, 1, DType::kInt64, out.data(), 2});
  EXPECT_EQ(out, (std::vector<std::int64_t>{kMax, -4}));
}

TEST(NcclKernels, CastsHaveTheBitsOfTheHostsForEverySixteenBitNumber) {
  std::vector<std::uint16_t> all(1 << 16);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  const auto n = static_cast<std::int64_t>(all.size());
  for (const DType from : {DType::kBFloat16, DType::kFloat16}) {
    for (const DType to : kFloats) {
      if (from == to) continue;
      std::vector<std::byte> expected(all.size() * static_cast<std::size_t>(size_of(to)));
      std::vector<std::byte> result(expected.size());
      cast_elements(all.data(), from, expected.data(), to, n);
      launch(fake_kernels().cast, {all.data(), from, result.data(), to, n});
      EXPECT_EQ(result, expected) << name_of(from) << " to " << name_of(to);
    }
  }
}

struct State {
  std::vector<float> p, m, v;
  std::vector<std::uint16_t> copy;
};

/// Every special value as parameter, moment and gradient, each with each.
State special_state(std::vector<float>& gradient) {
  State state;
  const std::vector<float> values = special_values();
  for (const float p : values) {
    for (const float m : values) {
      for (const float g : values) {
        state.p.push_back(p);
        state.m.push_back(m);
        state.v.push_back(std::fabs(m) * 0.5f);
        gradient.push_back(g);
      }
    }
  }
  state.copy.resize(gradient.size());
  return state;
}

void expect_same(const std::vector<float>& a, const std::vector<float>& b, const char* what) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_TRUE(same(a[i], b[i])) << what << " " << i << ": " << a[i] << " and " << b[i];
  }
}

TEST(NcclKernels, AdamWHasTheBitsOfTheCpuForAllTypesAndSpecialValues) {
  AdamWHyperparameters h;
  h.weight_decay = 0.1;
  for (const DType gradient_dtype : kFloats) {
    for (const DType copy_dtype : kFloats) {
      std::vector<float> values;
      State cpu = special_state(values);
      State gpu = cpu;
      const auto gradient = as_type(values, gradient_dtype);
      const bool has_copy = copy_dtype != DType::kFloat32;
      const auto n = static_cast<std::int64_t>(values.size());
      const AdamWConstants constants = adamw_constants(h, 7);
      adamw_step(constants, {gradient.data(), gradient_dtype, 0.37f, cpu.p.data(), cpu.m.data(),
                             cpu.v.data(), has_copy ? cpu.copy.data() : nullptr, copy_dtype, n});
      cuda::StepState state;
      state.apply = 1;
      state.gradient_factor = 0.37f;
      launch(fake_kernels().adamw,
             {&state, &constants, gradient.data(), gradient_dtype, gpu.p.data(), gpu.m.data(),
              gpu.v.data(), has_copy ? gpu.copy.data() : nullptr, copy_dtype, n});
      expect_same(cpu.p, gpu.p, "master");
      expect_same(cpu.m, gpu.m, "exp_avg");
      expect_same(cpu.v, gpu.v, "exp_avg_sq");
      EXPECT_EQ(cpu.copy, gpu.copy);
    }
  }
}

/// As in_clipped_runs() does it for the CPU's kernels.
std::vector<float> bounded(std::vector<float> gradient, float factor, float limit) {
  for (float& value : gradient) {
    value *= factor;
    value = value > limit ? limit : value < -limit ? -limit : value;
  }
  return gradient;
}

TEST(NcclKernels, AdamWBoundsGradientsAndNeedsNoAlignment) {
  const AdamWConstants constants = adamw_constants({}, 3);
  cuda::StepState state;
  state.apply = 1;
  state.gradient_factor = 0.5f;
  for (const std::size_t skip :
       {0u, 1u, 4u}) {  // elements at the beginning, so that fours do not fit
    std::vector<float> values;
    State cpu = special_state(values);
    State gpu = cpu;
    const std::vector<float> clipped = bounded(values, 0.5f, 0.25f);
    const auto n = static_cast<std::int64_t>(values.size() - skip);
    adamw_step(constants, {clipped.data() + skip, DType::kFloat32, 1.0f, cpu.p.data() + skip,
                           cpu.m.data() + skip, cpu.v.data() + skip, cpu.copy.data() + skip,
                           DType::kBFloat16, n});
    cuda::AdamWStep args{&state,
                         &constants,
                         values.data() + skip,
                         DType::kFloat32,
                         gpu.p.data() + skip,
                         gpu.m.data() + skip,
                         gpu.v.data() + skip,
                         gpu.copy.data() + skip,
                         DType::kBFloat16,
                         n};
    args.value_limit = 0.25f;
    launch(fake_kernels().adamw, args);
    expect_same(cpu.p, gpu.p, "master");
    expect_same(cpu.m, gpu.m, "exp_avg");
    expect_same(cpu.v, gpu.v, "exp_avg_sq");
    EXPECT_EQ(cpu.copy, gpu.copy);
  }
}

TEST(NcclKernels, SGDHasTheBitsOfTheCpuForAllTypesAndSpecialValues) {
  for (const DType copy_dtype : kFloats) {
    for (const bool has_buffer : {false, true}) {
      for (const float limit : {0.0f, 0.25f}) {
        const SGDConstants constants =
            sgd_constants({0.1, has_buffer ? 0.9 : 0.0, 0.01, has_buffer});
        std::vector<float> values;
        State cpu = special_state(values);
        State gpu = cpu;
        const bool has_copy = copy_dtype != DType::kFloat32;
        const auto n = static_cast<std::int64_t>(values.size());
        const std::vector<float> gradient = limit > 0 ? bounded(values, 0.37f, limit) : values;
        sgd_step(constants, {gradient.data(), DType::kFloat32, limit > 0 ? 1.0f : 0.37f,
                             cpu.p.data(), has_buffer ? cpu.m.data() : nullptr,
                             has_copy ? cpu.copy.data() : nullptr, copy_dtype, n});
        cuda::StepState state;
        state.apply = 1;
        state.gradient_factor = 0.37f;
        launch(fake_kernels().sgd,
               cuda::SGDStep{&state, &constants, values.data(), DType::kFloat32, gpu.p.data(),
                             has_buffer ? gpu.m.data() : nullptr,
                             has_copy ? gpu.copy.data() : nullptr, copy_dtype, n, limit});
        expect_same(cpu.p, gpu.p, "master");
        expect_same(cpu.m, gpu.m, "momentum_buffer");
        EXPECT_EQ(cpu.copy, gpu.copy);
      }
    }
  }
}

TEST(NcclKernels, TheAverageHasTheBitsOfTheCpu) {
  std::vector<float> values;
  const State state = special_state(values);
  std::vector<float> cpu = state.p, gpu = state.p;
  ema_step(0.001f, values.data(), cpu.data(), static_cast<std::int64_t>(values.size()));
  cuda::StepState step;
  const cuda::Average args{&step, 0.001f, values.data(), gpu.data(),
                           static_cast<std::int64_t>(values.size())};
  launch(fake_kernels().average, args);
  EXPECT_EQ(std::memcmp(gpu.data(), state.p.data(), gpu.size() * 4), 0) << "not applied";
  step.apply = 1;
  launch(fake_kernels().average, args);
  expect_same(cpu, gpu, "average");
}

RC_GTEST_PROP(NcclKernels, SumExactlyIsTheExactSumAndCountsWhatIsNotFinite, ()) {
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const auto count = *rc::gen::inRange<std::size_t>(0, 300);
  std::mt19937_64 random(seed);
  std::vector<double> sums(count);
  for (double& sum : sums) {
    float block[kNormBlock];
    for (float& value : block) {
      value = std::ldexp(static_cast<float>(random() >> 40) * 0x1p-24f,
                         static_cast<int>(random() % 270) - 148);
    }
    sum = block_sum_of_squares(block, kNormBlock);
  }
  ExactSum expected;
  expected.add(sums);
  const std::size_t infinite = count == 0 ? 0 : random() % 3;
  for (std::size_t i = 0; i < infinite; ++i)
    sums.push_back(i == 0 ? std::numeric_limits<double>::infinity() : std::nan(""));
  std::vector<std::int64_t> words(kExactWords + 1, 0);
  const auto half = static_cast<std::int64_t>(sums.size() / 2);
  launch(fake_kernels().sum_exactly, cuda::SumExactly{sums.data(), half, words.data()});
  launch(fake_kernels().sum_exactly,
         cuda::SumExactly{sums.data() + half, static_cast<std::int64_t>(sums.size()) - half,
                          words.data()});
  RC_ASSERT(words[kExactWords] == static_cast<std::int64_t>(infinite));
  ExactSum sum;
  sum.merge({words.data(), static_cast<std::size_t>(kExactWords)});
  RC_ASSERT(sum.value() == expected.value());
  RC_ASSERT(std::equal(sum.words().begin(), sum.words().end(), expected.words().begin()));
}

TEST(NcclKernels, AStepThatIsNotAppliedWritesNothing) {
  std::vector<float> gradient;
  State before = special_state(gradient);
  State after = before;
  const cuda::StepState state;
  const AdamWConstants constants = adamw_constants({}, 1);
  launch(fake_kernels().adamw, {&state, &constants, gradient.data(), DType::kFloat32,
                                after.p.data(), after.m.data(), after.v.data(), after.copy.data(),
                                DType::kBFloat16, static_cast<std::int64_t>(gradient.size())});
  EXPECT_EQ(std::memcmp(before.p.data(), after.p.data(), before.p.size() * 4), 0);
  EXPECT_EQ(before.copy, after.copy);
}

TEST(NcclKernels, PrepareStepDecidesAsTheHostDoesAndCountsAppliedSteps) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<AdamWHyperparameters> groups(2);
  groups[1].lr = 0.3;
  groups[1].beta2 = 0.95;
  cuda::StepState state;
  std::int64_t applied = 0;
  for (const double squares : {4.0, 1e-30, kInfinity, 1e30, std::nan(""), 0.0, 2.5}) {
    for (const std::int64_t nonfinite : {0, 3}) {
      for (const double clip : {0.0, 0.5, 1e9}) {
        const DecisionInput input{squares, nonfinite == 0, 1024, 12, clip};
        const Decision expected = decide(input);
        state.sum_of_squares = squares;
        state.nonfinite = nonfinite;
        state.loss_scale = input.loss_scale;
        state.weight_sum = input.weight_sum;
        std::vector<AdamWConstants> constants(2);
        launch(fake_kernels().prepare_step, {&state, clip, groups.data(), constants.data(), 2});
        EXPECT_EQ(state.apply != 0, expected.apply);
        EXPECT_EQ(state.clip_factor, expected.clip_factor);
        EXPECT_EQ(state.gradient_factor, expected.gradient_factor);
        EXPECT_TRUE(state.grad_norm == expected.grad_norm ||
                    (std::isnan(state.grad_norm) && std::isnan(expected.grad_norm)));
        if (expected.apply) ++applied;
        EXPECT_EQ(state.applied_steps, applied);
        for (std::size_t g = 0; g < 2 && expected.apply; ++g) {
          const AdamWConstants right = adamw_constants(groups[g], applied);
          EXPECT_EQ(std::memcmp(&constants[g], &right, sizeof right), 0) << "group " << g;
        }
      }
    }
  }
}

}  // namespace
}  // namespace zero::nccl_test
