#include "libzero/base/float16.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <ostream>
#include <random>
#include <vector>

namespace zero {
namespace {

/// A 16-bit format as IEEE 754 describes it, in doubles.
struct Format {
  const char* name;
  int mantissa_bits;
  int bias;
  std::uint16_t infinity;
  std::uint16_t (*encode)(float) noexcept;
  float (*decode)(std::uint16_t) noexcept;

  /// The value of a non-negative pattern; that of infinity is the power of two that would follow
  /// the largest number.
  double value(std::uint16_t pattern) const {
    const int exponent = pattern >> mantissa_bits;
    const int fraction = pattern & ((1 << mantissa_bits) - 1);
    if (exponent == 0) return std::ldexp(fraction, 1 - bias - mantissa_bits);
    return std::ldexp(fraction + (1 << mantissa_bits), exponent - bias - mantissa_bits);
  }

  /// Nearest pattern, ties to the even one, by search in the table of all values.
  std::uint16_t nearest(const std::vector<double>& table, float x) const {
    const auto sign = static_cast<std::uint16_t>(std::signbit(x) ? 0x8000 : 0);
    const double magnitude = std::fabs(static_cast<double>(x));
    if (magnitude >= table.back()) return static_cast<std::uint16_t>(sign | infinity);
    const auto above = std::upper_bound(table.begin(), table.end(), magnitude);
    const auto high = static_cast<std::uint16_t>(above - table.begin());
    const auto low = static_cast<std::uint16_t>(high - 1);
    const double to_low = magnitude - table[low];
    const double to_high = table[high] - magnitude;
    const bool take_low = to_low < to_high || (to_low == to_high && low % 2 == 0);
    return static_cast<std::uint16_t>(sign | (take_low ? low : high));
  }

  friend std::ostream& operator<<(std::ostream& out, const Format& f) { return out << f.name; }

  std::vector<double> table() const {
    std::vector<double> values;
    for (std::uint32_t p = 0; p <= infinity; ++p)
      values.push_back(value(static_cast<std::uint16_t>(p)));
    return values;
  }
};

const Format kHalf = {"float16", 10, 15, 0x7c00, float16_from_float, float_from_float16};
const Format kBrain = {"bfloat16", 7, 127, 0x7f80, bfloat16_from_float, float_from_bfloat16};

class Float16 : public ::testing::TestWithParam<Format> {};

INSTANTIATE_TEST_SUITE_P(Formats, Float16, ::testing::Values(kHalf, kBrain),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(Float16, EveryPatternDecodesToItsValue) {
  const Format& format = GetParam();
  for (std::uint32_t p = 0; p < format.infinity; ++p) {
    const auto positive = static_cast<std::uint16_t>(p);
    const auto negative = static_cast<std::uint16_t>(p | 0x8000);
    ASSERT_EQ(static_cast<double>(format.decode(positive)), format.value(positive)) << p;
    ASSERT_EQ(static_cast<double>(format.decode(negative)), -format.value(positive)) << p;
    ASSERT_TRUE(std::signbit(format.decode(negative))) << p;
  }
  EXPECT_EQ(format.decode(format.infinity), std::numeric_limits<float>::infinity());
  EXPECT_EQ(format.decode(static_cast<std::uint16_t>(format.infinity | 0x8000)),
            -std::numeric_limits<float>::infinity());
  for (std::uint32_t p = format.infinity + 1u; p <= 0x7fff; ++p) {
    ASSERT_TRUE(std::isnan(format.decode(static_cast<std::uint16_t>(p)))) << p;
    ASSERT_TRUE(std::isnan(format.decode(static_cast<std::uint16_t>(p | 0x8000)))) << p;
    const auto bits = std::bit_cast<std::uint32_t>(format.decode(static_cast<std::uint16_t>(p)));
    // Arithmetic instructions make a float16's NaN quiet; a bfloat16 is the upper half of a float.
    const std::uint32_t quiet = format.mantissa_bits == 10 ? 0x400000u : 0u;
    const std::uint32_t payload = (p - format.infinity) << (23 - format.mantissa_bits);
    ASSERT_EQ(bits & 0x7fffffu, payload | quiet) << p;
  }
}

TEST_P(Float16, EveryPatternSurvivesTheWayThereAndBack) {
  const Format& format = GetParam();
  for (std::uint32_t p = 0; p <= 0xffff; ++p) {
    const auto pattern = static_cast<std::uint16_t>(p);
    const std::uint16_t back = format.encode(format.decode(pattern));
    if ((p & 0x7fff) <= format.infinity) {
      ASSERT_EQ(back, pattern);
    } else {
      ASSERT_GT(back & 0x7fff, format.infinity) << "NaN became a number: " << p;
      ASSERT_EQ(back & (1 << (format.mantissa_bits - 1)), 1 << (format.mantissa_bits - 1))
          << "NaN is not quiet: " << p;
    }
  }
}

/// Rounding is monotone, so being right at each value, each midpoint and next to both is being
/// right everywhere.
TEST_P(Float16, EveryValueMidpointAndNeighbourRoundsToNearestEven) {
  const Format& format = GetParam();
  const std::vector<double> table = format.table();
  const float infinity = std::numeric_limits<float>::infinity();
  for (std::uint32_t p = 0; p < format.infinity; ++p) {
    const float value = static_cast<float>(table[p]);
    const float middle = static_cast<float>((table[p] + table[p + 1]) / 2);
    for (const float centre : {value, middle}) {
      for (const float x :
           {std::nextafter(centre, -infinity), centre, std::nextafter(centre, infinity)}) {
        ASSERT_EQ(format.encode(x), format.nearest(table, x)) << x;
        ASSERT_EQ(format.encode(-x), format.nearest(table, -x)) << -x;
      }
    }
  }
}

TEST_P(Float16, RandomBitsRoundToNearestEven) {
  const Format& format = GetParam();
  const std::vector<double> table = format.table();
  std::mt19937 random(1);
  for (int i = 0; i < 300'000; ++i) {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    const std::uint16_t pattern = format.encode(x);
    if (std::isnan(x)) {
      ASSERT_TRUE(std::isnan(format.decode(pattern)));
    } else {
      ASSERT_EQ(pattern, format.nearest(table, x)) << x;
    }
  }
}

TEST_P(Float16, NanStaysNanWhateverItsPayload) {
  const Format& format = GetParam();
  for (const std::uint32_t bits : {0x7f800001u, 0x7f802000u, 0x7f80ffffu, 0x7fbfffffu, 0x7fc00000u,
                                   0x7fffffffu, 0xff800001u, 0xffffffffu}) {
    ASSERT_TRUE(std::isnan(format.decode(format.encode(std::bit_cast<float>(bits))))) << bits;
  }
}

TEST(Float16, TheEdgesOfHalfAreTheKnownOnes) {
  EXPECT_EQ(float16_from_float(65504.0f), 0x7bff);
  EXPECT_EQ(float16_from_float(65519.996f), 0x7bff);
  EXPECT_EQ(float16_from_float(65520.0f), 0x7c00);
  EXPECT_EQ(float16_from_float(0x1p-24f), 0x0001);
  EXPECT_EQ(float16_from_float(0x1p-25f), 0x0000);
  EXPECT_EQ(float16_from_float(-0x1p-25f), 0x8000);
  EXPECT_EQ(float16_from_float(std::nextafter(0x1p-25f, 1.0f)), 0x0001);
  EXPECT_EQ(float16_from_float(1.0001f), 0x3c00);
  EXPECT_EQ(bfloat16_from_float(3.4e38f), 0x7f80);
  EXPECT_EQ(bfloat16_from_float(-0.0f), 0x8000);
}

}  // namespace
}  // namespace zero
