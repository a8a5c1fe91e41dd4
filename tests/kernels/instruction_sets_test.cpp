/// Every instruction set gives the bits of plain C++.

#include "instruction_sets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <random>
#include <tuple>
#include <vector>

#include "libzero/base/float16.h"
#include "libzero/kernels/adamw.h"
#include "libzero/kernels/block_norm.h"
#include "libzero/kernels/cast.h"
#include "libzero/kernels/sum.h"

namespace zero {
namespace {

using Bits = std::vector<std::uint32_t>;

Bits bits_of(const std::vector<float>& values) {
  Bits bits;
  for (const float value : values) bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

/// Of one instruction set after the other, with the same input.
template <typename Function>
auto on_each(Function function) {
  std::vector<decltype(function())> results;
  for (const std::int64_t target : instruction_sets()) {
    const OnInstructionSet scope(target);
    results.push_back(function());
  }
  return results;
}

template <typename Results>
void expect_all_equal(const Results& results) {
  for (std::size_t i = 0; i < results.size(); ++i) {
    EXPECT_TRUE(results[i] == results.back())
        << hwy::TargetName(instruction_sets()[i]) << " differs from "
        << hwy::TargetName(instruction_sets().back());
  }
}

/// Floats of every magnitude, subnormals, zeros and infinities among them.
std::vector<float> wild_floats(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    do {
      value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    } while (std::isnan(value));
  }
  return values;
}

std::vector<float> tame_floats(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

/// Otherwise the tests below would compare one of them with itself.
TEST(InstructionSets, TwoAreComparedWhereTheCompilerMadeSeveral) {
  const auto made =
      static_cast<std::size_t>(std::popcount(static_cast<std::uint64_t>(HWY_TARGETS)));
  EXPECT_GE(instruction_sets().size(), std::min<std::size_t>(made, 2));
}

class InstructionSetsStep
    : public ::testing::TestWithParam<std::tuple<DType, std::optional<DType>>> {};
INSTANTIATE_TEST_SUITE_P(
    Formats, InstructionSetsStep,
    ::testing::Combine(::testing::Values(DType::kFloat32, DType::kBFloat16, DType::kFloat16),
                       ::testing::Values(std::nullopt, std::optional(DType::kBFloat16),
                                         std::optional(DType::kFloat16))));

TEST_P(InstructionSetsStep, FiftyStepsOfAnyLengthGiveTheSameBits) {
  const auto [gradient_dtype, copy_dtype] = GetParam();
  const auto run_all = [&, gradient = gradient_dtype, copy = copy_dtype] {
    Bits everything;
    for (const std::size_t n : {1u, 15u, 16u, 17u, 250u}) {
      std::vector<float> p = tame_floats(n, 1), m(n), v(n);
      std::vector<std::uint16_t> low(n);
      for (std::int64_t t = 1; t <= 50; ++t) {
        const std::vector<float> wide = tame_floats(n, static_cast<std::uint32_t>(t));
        std::vector<std::uint16_t> narrow;
        for (const float g : wide) {
          narrow.push_back(gradient == DType::kFloat16 ? float16_from_float(g)
                                                       : bfloat16_from_float(g));
        }
        AdamWRun run;
        run.gradient = gradient == DType::kFloat32 ? static_cast<const void*>(wide.data())
                                                   : static_cast<const void*>(narrow.data());
        run.gradient_dtype = gradient;
        run.gradient_factor = 0.37f;
        run.master = p.data();
        run.exp_avg = m.data();
        run.exp_avg_sq = v.data();
        run.n = static_cast<std::int64_t>(n);
        if (copy) {
          run.low_precision = low.data();
          run.low_precision_dtype = *copy;
        }
        adamw_step(adamw_constants({.weight_decay = 0.1}, t), run);
      }
      for (const auto* values : {&p, &m, &v}) {
        const Bits bits = bits_of(*values);
        everything.insert(everything.end(), bits.begin(), bits.end());
      }
      everything.insert(everything.end(), low.begin(), low.end());
    }
    return everything;
  };
  expect_all_equal(on_each(run_all));
}

TEST(InstructionSets, TheNormOfABlockHasTheSameBits) {
  const std::vector<float> values = tame_floats(64, 3);
  for (const std::int64_t count : {0, 1, 15, 16, 17, 33, 63, 64}) {
    expect_all_equal(on_each([&] { return block_sum_of_squares(values.data(), count); }));
  }
}

TEST(InstructionSets, SumsAndTheirNormsHaveTheSameBits) {
  for (const std::size_t ranks : {1u, 2u, 3u, 4u, 5u, 9u}) {
    std::vector<std::vector<float>> parts;
    std::vector<const void*> at;
    for (std::size_t r = 0; r < ranks; ++r) {
      parts.push_back(tame_floats(4500, static_cast<std::uint32_t>(r)));
      at.push_back(parts.back().data());
    }
    expect_all_equal(on_each([&] {
      std::vector<float> out(4500, 0.5f);
      std::vector<double> squares(4500 / 64 + 1);
      sum_parts(at, DType::kFloat32, out.data(), 4500, true, squares.data());
      return std::pair(bits_of(out), squares);
    }));
  }
}

class InstructionSetsFormat : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Formats, InstructionSetsFormat,
                         ::testing::Values(DType::kBFloat16, DType::kFloat16));

TEST_P(InstructionSetsFormat, AllElementsAreWidenedAsInPlainCode) {
  const auto widen = GetParam() == DType::kBFloat16 ? float_from_bfloat16 : float_from_float16;
  std::vector<std::uint16_t> all(1 << 16);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  const void* const parts[] = {all.data()};
  for (const std::int64_t target : instruction_sets()) {
    const OnInstructionSet scope(target);
    std::vector<float> out(all.size(), -0.0f);  // onto which -0 stays -0
    sum_parts(parts, GetParam(), out.data(), static_cast<std::int64_t>(out.size()), true, nullptr);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const float expected = widen(all[i]);
      ASSERT_TRUE(std::bit_cast<std::uint32_t>(out[i]) == std::bit_cast<std::uint32_t>(expected) ||
                  (std::isnan(out[i]) && std::isnan(expected)))
          << hwy::TargetName(target) << ", bits " << i;
    }
  }
}

TEST_P(InstructionSetsFormat, ACastOfAnyElementHasTheBitsOfPlainCodeNanToo) {
  const auto widen = GetParam() == DType::kBFloat16 ? float_from_bfloat16 : float_from_float16;
  std::vector<std::uint16_t> all(1 << 16);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  for (const std::int64_t target : instruction_sets()) {
    const OnInstructionSet scope(target);
    std::vector<std::uint32_t> out(all.size());
    cast_elements(all.data(), GetParam(), out.data(), DType::kFloat32,
                  static_cast<std::int64_t>(out.size()));
    for (std::size_t i = 0; i < all.size(); ++i) {
      ASSERT_EQ(out[i], std::bit_cast<std::uint32_t>(widen(all[i])))
          << hwy::TargetName(target) << ", bits " << i;
    }
  }
}

/// The masters come out as they went in where there is no gradient, momentum or decay.
TEST_P(InstructionSetsFormat, FloatsOfAllMagnitudesAreRoundedAsInPlainCode) {
  const auto narrow = GetParam() == DType::kBFloat16 ? bfloat16_from_float : float16_from_float;
  std::vector<float> values = wild_floats(200000, 5);
  for (std::uint32_t half = 0; half < 1u << 16; ++half) {  // and ties, and their neighbours
    for (const std::uint32_t low : {0x7fffu, 0x8000u, 0x8001u, 0x0fffu, 0x1000u, 0x1001u}) {
      const float value = std::bit_cast<float>(half << 16 | low);
      if (!std::isnan(value)) values.push_back(value);
    }
  }
  const std::vector<float> zeros(values.size());
  AdamWHyperparameters still;
  still.lr = 0;
  for (const std::int64_t target : instruction_sets()) {
    const OnInstructionSet scope(target);
    std::vector<float> master = values, m(values.size()), v(values.size());
    std::vector<std::uint16_t> low(values.size());
    AdamWRun run;
    run.gradient = zeros.data();
    run.master = master.data();
    run.exp_avg = m.data();
    run.exp_avg_sq = v.data();
    run.low_precision = low.data();
    run.low_precision_dtype = GetParam();
    run.n = static_cast<std::int64_t>(values.size());
    adamw_step(adamw_constants(still, 1), run);
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(low[i], narrow(values[i])) << hwy::TargetName(target) << ", " << values[i];
    }
  }
}

TEST_P(InstructionSetsFormat, FloatsAreCastWithTheBitsOfPlainCode) {
  const auto narrow = GetParam() == DType::kBFloat16 ? bfloat16_from_float : float16_from_float;
  std::vector<float> values = wild_floats(100003, 9);
  values.push_back(std::nanf(""));
  for (const std::int64_t target : instruction_sets()) {
    const OnInstructionSet scope(target);
    std::vector<std::uint16_t> low(values.size() + 1, 0xabcd);
    cast_elements(values.data(), DType::kFloat32, low.data(), GetParam(),
                  static_cast<std::int64_t>(values.size()));
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(low[i], narrow(values[i])) << hwy::TargetName(target) << ", " << values[i];
    }
    ASSERT_EQ(low.back(), 0xabcd);
  }
}

TEST_P(InstructionSetsFormat, NaNBecomesTheOneQuietNaNOfItsSign) {
  for (const std::int64_t target : instruction_sets()) {
    const OnInstructionSet scope(target);
    for (const std::uint32_t pattern : {0x7fc00000u, 0x7fffffffu, 0xffc12345u, 0xffc00000u}) {
      std::vector<float> master(20, std::bit_cast<float>(pattern)), m(20), v(20), zeros(20);
      std::vector<std::uint16_t> low(20);
      AdamWRun run;
      run.gradient = zeros.data();
      run.master = master.data();
      run.exp_avg = m.data();
      run.exp_avg_sq = v.data();
      run.low_precision = low.data();
      run.low_precision_dtype = GetParam();
      run.n = 20;
      adamw_step(adamw_constants({}, 1), run);
      const float out = master[0];
      ASSERT_TRUE(std::isnan(out));
      for (const std::uint16_t half : low) {
        ASSERT_EQ(half, GetParam() == DType::kBFloat16 ? bfloat16_from_float(out)
                                                       : float16_from_float(out))
            << hwy::TargetName(target);
      }
    }
  }
}

}  // namespace
}  // namespace zero
