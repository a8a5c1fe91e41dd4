#include "libzero/optim/weight_types.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "libzero/base/error.h"
#include "libzero/base/float16.h"

namespace zero {
namespace {

struct WeightType {
  const char* name;
  c10::ScalarType type;
  std::int64_t bytes;
};

constexpr std::array<WeightType, 10> kTypes{{{"F64", at::kDouble, 8},
                                             {"F32", at::kFloat, 4},
                                             {"F16", at::kHalf, 2},
                                             {"BF16", at::kBFloat16, 2},
                                             {"I64", at::kLong, 8},
                                             {"I32", at::kInt, 4},
                                             {"I16", at::kShort, 2},
                                             {"I8", at::kChar, 1},
                                             {"U8", at::kByte, 1},
                                             {"BOOL", at::kBool, 1}}};

template <typename T>
T load(const std::byte* address) {
  T value;
  std::memcpy(&value, address, sizeof value);
  return value;
}

template <typename T>
void store(std::byte* address, T value) {
  std::memcpy(address, &value, sizeof value);
}

// One struct a type, so that the loop over elements holds no question about types.

struct Float32 {
  static constexpr std::size_t kBytes = 4;
  static float read(const std::byte* data) { return load<float>(data); }
  static float write(float value, std::byte* data) {
    store(data, value);
    return value;
  }
};

struct Float64 {
  static constexpr std::size_t kBytes = 8;
  static float read(const std::byte* data) { return static_cast<float>(load<double>(data)); }
  static float write(float value, std::byte* data) {
    store(data, static_cast<double>(value));
    return value;
  }
};

struct BFloat16 {
  static constexpr std::size_t kBytes = 2;
  static float read(const std::byte* data) {
    return float_from_bfloat16(load<std::uint16_t>(data));
  }
  static float write(float value, std::byte* data) {
    const std::uint16_t bits = bfloat16_from_float(value);
    store(data, bits);
    return float_from_bfloat16(bits);
  }
};

struct Float16 {
  static constexpr std::size_t kBytes = 2;
  static float read(const std::byte* data) { return float_from_float16(load<std::uint16_t>(data)); }
  static float write(float value, std::byte* data) {
    const std::uint16_t bits = float16_from_float(value);
    store(data, bits);
    return float_from_float16(bits);
  }
};

/// Whether what the file says is finite; the float32 on the way may not be.
template <typename From>
bool is_finite_at(const std::byte* data) {
  if constexpr (std::is_same_v<From, Float64>) {
    return std::isfinite(load<double>(data));
  } else {
    return std::isfinite(From::read(data));
  }
}

template <typename From, typename To>
std::int64_t convert_all(std::span<const std::byte> source, std::span<std::byte> target) {
  const std::size_t count = std::min(source.size() / From::kBytes, target.size() / To::kBytes);
  std::int64_t overflowed = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::byte* const from = source.data() + i * From::kBytes;
    const float written = To::write(From::read(from), target.data() + i * To::kBytes);
    overflowed += std::isinf(written) && is_finite_at<From>(from) ? 1 : 0;
  }
  return overflowed;
}

template <typename From>
std::int64_t convert_from(std::span<const std::byte> source, std::string_view to,
                          std::span<std::byte> target) {
  if (to == "F64") return convert_all<From, Float64>(source, target);
  if (to == "F32") return convert_all<From, Float32>(source, target);
  if (to == "F16") return convert_all<From, Float16>(source, target);
  return convert_all<From, BFloat16>(source, target);
}

}  // namespace

std::string weight_type_of(c10::ScalarType type) {
  for (const WeightType& each : kTypes) {
    if (each.type == type) return each.name;
  }
  return "";
}

bool is_floating_weight(std::string_view type) {
  return type == "F64" || type == "F32" || type == "F16" || type == "BF16";
}

std::int64_t weight_size(std::string_view type) {
  for (const WeightType& each : kTypes) {
    if (each.name == type) return each.bytes;
  }
  throw ContractError("load_parameters: not a known element type: " + std::string(type));
}

std::int64_t convert_weights(std::string_view from, std::span<const std::byte> source,
                             std::string_view to, std::span<std::byte> target) {
  ZERO_REQUIRE(is_floating_weight(from) && is_floating_weight(to),
               "load_parameters: only floating types become one another: " + std::string(from) +
                   " to " + std::string(to));
  if (from == to) {
    std::copy_n(source.begin(), std::min(source.size(), target.size()), target.begin());
    return 0;
  }
  if (from == "F64") return convert_from<Float64>(source, to, target);
  if (from == "F32") return convert_from<Float32>(source, to, target);
  if (from == "F16") return convert_from<Float16>(source, to, target);
  return convert_from<BFloat16>(source, to, target);
}

}  // namespace zero
