#include "libzero/base/convert_floats.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <type_traits>

#include "libzero/base/error.h"
#include "libzero/base/float16.h"

namespace zero {
namespace {

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
std::int64_t convert_from(std::span<const std::byte> source, FloatType to,
                          std::span<std::byte> target) {
  switch (to) {
    case FloatType::kFloat64:
      return convert_all<From, Float64>(source, target);
    case FloatType::kFloat32:
      return convert_all<From, Float32>(source, target);
    case FloatType::kFloat16:
      return convert_all<From, Float16>(source, target);
    case FloatType::kBFloat16:
      break;
  }
  return convert_all<From, BFloat16>(source, target);
}

}  // namespace

FloatType float_type_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return FloatType::kFloat32;
    case DType::kBFloat16:
      return FloatType::kBFloat16;
    case DType::kFloat16:
      return FloatType::kFloat16;
    default:
      throw ContractError("not a floating type: " + std::string(name_of(dtype)));
  }
}

std::size_t size_of(FloatType type) noexcept {
  if (type == FloatType::kFloat64) return 8;
  return type == FloatType::kFloat32 ? 4 : 2;
}

std::int64_t convert_floats(FloatType from, std::span<const std::byte> source, FloatType to,
                            std::span<std::byte> target) noexcept {
  if (from == to) {  // also the bits of NaN
    const std::size_t bytes = std::min(source.size(), target.size());
    if (bytes > 0) std::memcpy(target.data(), source.data(), bytes);
    return 0;
  }
  switch (from) {
    case FloatType::kFloat64:
      return convert_from<Float64>(source, to, target);
    case FloatType::kFloat32:
      return convert_from<Float32>(source, to, target);
    case FloatType::kFloat16:
      return convert_from<Float16>(source, to, target);
    case FloatType::kBFloat16:
      break;
  }
  return convert_from<BFloat16>(source, to, target);
}

}  // namespace zero
