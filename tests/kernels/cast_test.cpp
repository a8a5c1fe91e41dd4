#include "libzero/kernels/cast.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "libzero/base/convert_floats.h"
#include "libzero/base/error.h"

namespace zero {
namespace {

constexpr DType kTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};

/// Every 16-bit pattern's neighbourhood in float32: ties, limits, subnormals, infinities, NaN.
std::vector<float> telling_values() {
  std::vector<float> values;
  for (std::uint32_t high = 0; high < 0x10000; high += 7) {
    for (const std::uint32_t low :
         {0x0u, 0x1u, 0x0fffu, 0x1000u, 0x1001u, 0x7fffu, 0x8000u, 0x8001u})
      values.push_back(std::bit_cast<float>(high << 16 | low));
  }
  return values;
}

std::vector<std::byte> converted(const std::vector<std::byte>& from, DType from_dtype, DType to) {
  const std::size_t n = from.size() / static_cast<std::size_t>(size_of(from_dtype));
  std::vector<std::byte> result(n * static_cast<std::size_t>(size_of(to)));
  convert_floats(float_type_of(from_dtype), from, float_type_of(to), result);
  return result;
}

TEST(Cast, GivesTheBitsOfTheScalarConversionForEveryPairOfTypes) {
  const std::vector<float> values = telling_values();
  std::vector<std::byte> wide(values.size() * sizeof(float));
  std::memcpy(wide.data(), values.data(), wide.size());
  for (const DType from : kTypes) {
    const std::vector<std::byte> source = converted(wide, DType::kFloat32, from);
    for (const DType to : kTypes) {
      std::vector<std::byte> target(values.size() * static_cast<std::size_t>(size_of(to)));
      cast_elements(source.data(), from, target.data(), to,
                    static_cast<std::int64_t>(values.size()));
      EXPECT_EQ(target, converted(source, from, to)) << name_of(from) << " to " << name_of(to);
    }
  }
}

TEST(Cast, WritesExactlyItsElementsWhateverTheirNumber) {
  for (std::int64_t n = 0; n < 70; ++n) {
    const std::vector<float> ones(70, 1.0f);
    std::vector<std::uint16_t> target(70, 0xabcd);
    cast_elements(ones.data(), DType::kFloat32, target.data(), DType::kBFloat16, n);
    for (std::int64_t i = 0; i < 70; ++i)
      EXPECT_EQ(target[static_cast<std::size_t>(i)], i < n ? 0x3f80 : 0xabcd) << n << " " << i;
  }
}

TEST(Cast, RefusesTypesThatAreNotFloating) {
  std::int64_t word = 0;
  float number = 0;
  EXPECT_THROW(cast_elements(&word, DType::kInt64, &number, DType::kFloat32, 1), ContractError);
  EXPECT_THROW(cast_elements(&number, DType::kFloat32, &word, DType::kInt64, 1), ContractError);
}

}  // namespace
}  // namespace zero
