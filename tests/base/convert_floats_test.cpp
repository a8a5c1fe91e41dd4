/// Arrays of every floating type as every other.

#include "libzero/base/convert_floats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "libzero/base/error.h"
#include "libzero/base/float16.h"

namespace zero {
namespace {

constexpr FloatType kTypes[] = {FloatType::kFloat64, FloatType::kFloat32, FloatType::kFloat16,
                                FloatType::kBFloat16};

std::vector<std::byte> bytes_of(const std::vector<double>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(double));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

struct Converted {
  std::vector<std::byte> bytes;
  std::int64_t overflowed = 0;
};

Converted convert(FloatType from, const std::vector<std::byte>& source, FloatType to) {
  Converted result;
  result.bytes.resize(source.size() / size_of(from) * size_of(to));
  result.overflowed = convert_floats(from, source, to, result.bytes);
  return result;
}

TEST(ConvertFloats, KeepsWhatBothTypesHoldWhicheverWay) {
  const auto original = bytes_of({0.0, -0.0, 1.5, -2.0, 0.25, 64.0, INFINITY, -INFINITY});
  for (const FloatType from : kTypes) {
    const auto source = convert(FloatType::kFloat64, original, from).bytes;
    for (const FloatType to : kTypes) {
      const Converted there = convert(from, source, to);
      EXPECT_EQ(there.overflowed, 0);
      EXPECT_EQ(convert(to, there.bytes, from).bytes, source);
    }
  }
}

TEST(ConvertFloats, RoundsAsTheConversionsOfOneElementDo) {
  const std::vector<float> values = {1.00390625f, 1.01171875f, 3.3f, -1e-7f, 70000.0f, 1e-42f};
  const auto source = std::as_bytes(std::span(values));
  std::vector<std::uint16_t> half(values.size()), brain(values.size());
  EXPECT_EQ(convert_floats(FloatType::kFloat32, source, FloatType::kFloat16,
                           std::as_writable_bytes(std::span(half))),
            1)
      << "70000 is too large";
  EXPECT_EQ(convert_floats(FloatType::kFloat32, source, FloatType::kBFloat16,
                           std::as_writable_bytes(std::span(brain))),
            0);
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(half[i], float16_from_float(values[i])) << values[i];
    EXPECT_EQ(brain[i], bfloat16_from_float(values[i])) << values[i];
  }
}

TEST(ConvertFloats, CountsFiniteValuesThatBecameInfiniteAndNoOthers) {
  const auto source = bytes_of({1e300, -1e300, INFINITY, NAN, 1e30, 1.0});
  EXPECT_EQ(convert(FloatType::kFloat64, source, FloatType::kFloat32).overflowed, 2);
  EXPECT_EQ(convert(FloatType::kFloat64, source, FloatType::kBFloat16).overflowed, 2);
  EXPECT_EQ(convert(FloatType::kFloat64, source, FloatType::kFloat16).overflowed, 3);
  EXPECT_EQ(convert(FloatType::kFloat64, source, FloatType::kFloat64).overflowed, 0);
}

TEST(ConvertFloats, StopsAtTheShorterSpanAndNeedsNoAlignment) {
  std::vector<std::byte> source(1 + 3 * sizeof(float)), target(1 + 2 * 2, std::byte{0x77});
  const float values[] = {1, 2, 3};
  std::memcpy(source.data() + 1, values, sizeof values);
  convert_floats(FloatType::kFloat32, std::span(source).subspan(1), FloatType::kBFloat16,
                 std::span(target).first(4));
  EXPECT_EQ(target[4], std::byte{0x77});
  std::uint16_t second = 0;
  std::memcpy(&second, target.data() + 2, sizeof second);
  EXPECT_EQ(second, bfloat16_from_float(2));
}

TEST(ConvertFloats, NaNStaysNaNWhicheverWay) {
  const auto original = bytes_of({NAN, -NAN, 1.0});
  for (const FloatType from : kTypes) {
    const auto source = convert(FloatType::kFloat64, original, from).bytes;
    for (const FloatType to : kTypes) {
      const Converted there = convert(from, source, to);
      EXPECT_EQ(there.overflowed, 0);
      std::vector<double> wide(3);
      convert_floats(to, there.bytes, FloatType::kFloat64, std::as_writable_bytes(std::span(wide)));
      EXPECT_TRUE(std::isnan(wide[0]) && std::isnan(wide[1]) && wide[2] == 1.0)
          << static_cast<int>(from) << " to " << static_cast<int>(to);
    }
  }
}

/// Also NaN with something to say, and what no conversion would leave alone.
TEST(ConvertFloats, TheSameTypeKeepsEveryBit) {
  for (const FloatType type : kTypes) {
    std::vector<std::byte> source(8 * 256);
    for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::byte>(i / 8);
    EXPECT_EQ(convert(type, source, type).bytes, source) << static_cast<int>(type);
  }
  const std::uint32_t signalling[] = {0x7f800001u, 0xffabcdefu, 0x7fc00123u};
  std::vector<std::byte> source(sizeof signalling);
  std::memcpy(source.data(), signalling, sizeof signalling);
  EXPECT_EQ(convert(FloatType::kFloat32, source, FloatType::kFloat32).bytes, source);
  EXPECT_EQ(convert(FloatType::kFloat16, source, FloatType::kFloat16).bytes, source);
}

TEST(ConvertFloats, WritesNoMoreThanTheSourceHas) {
  const std::vector<float> source = {1, 2, 3};
  std::vector<float> copy(5, 7);
  std::vector<double> wide(5, 7);
  const auto bytes = std::as_bytes(std::span(source)).first(2 * sizeof(float));
  convert_floats(FloatType::kFloat32, bytes, FloatType::kFloat32,
                 std::as_writable_bytes(std::span(copy)));
  convert_floats(FloatType::kFloat32, bytes, FloatType::kFloat64,
                 std::as_writable_bytes(std::span(wide)));
  EXPECT_EQ(copy, (std::vector<float>{1, 2, 7, 7, 7}));
  EXPECT_EQ(wide, (std::vector<double>{1, 2, 7, 7, 7}));
}

TEST(ConvertFloats, KnowsTheFloatingTypesOnly) {
  EXPECT_EQ(float_type_of(DType::kBFloat16), FloatType::kBFloat16);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16})
    EXPECT_EQ(static_cast<std::int64_t>(size_of(float_type_of(dtype))), size_of(dtype));
  EXPECT_THROW(float_type_of(DType::kInt64), ContractError);
}

}  // namespace
}  // namespace zero
