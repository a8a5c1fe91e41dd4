#include "checkpoint/tools/element_difference.h"

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "libzero/base/float16.h"
#include "libzero/base/shape_text.h"

namespace zero::checkpoint {
namespace {

template <class Float>
double float_distance(Float a, Float b) {
  if (std::isnan(a) && std::isnan(b)) return 0;
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::infinity();
  return std::fabs(static_cast<double>(a) - static_cast<double>(b));
}

/// How the bits of each type are read.
struct Float32 {
  using Bits = std::uint32_t;
  static float value(Bits bits) { return std::bit_cast<float>(bits); }
  static double distance(Bits a, Bits b) { return float_distance(value(a), value(b)); }
};
struct BFloat16 {
  using Bits = std::uint16_t;
  static float value(Bits bits) { return float_from_bfloat16(bits); }
  static double distance(Bits a, Bits b) { return float_distance(value(a), value(b)); }
};
struct Float16 {
  using Bits = std::uint16_t;
  static float value(Bits bits) { return float_from_float16(bits); }
  static double distance(Bits a, Bits b) { return float_distance(value(a), value(b)); }
};
struct Int64 {
  using Bits = std::uint64_t;
  static std::int64_t value(Bits bits) { return static_cast<std::int64_t>(bits); }
  /// Unsigned, or the extremes would overflow.
  static double distance(Bits a, Bits b) {
    return static_cast<double>(value(a) > value(b) ? a - b : b - a);
  }
};
struct UInt8 {
  using Bits = std::uint8_t;
  static int value(Bits bits) { return bits; }
  static double distance(Bits a, Bits b) { return a > b ? a - b : b - a; }
};

template <class Visit>
auto with_type(DType dtype, Visit visit) {
  switch (dtype) {
    case DType::kFloat32:
      return visit(Float32{});
    case DType::kBFloat16:
      return visit(BFloat16{});
    case DType::kFloat16:
      return visit(Float16{});
    case DType::kInt64:
      return visit(Int64{});
    case DType::kUInt8:
      break;
  }
  return visit(UInt8{});
}

template <class Type>
void compare(std::span<const std::byte> a, std::span<const std::byte> b, std::int64_t position,
             ElementDifference& result) {
  using Bits = typename Type::Bits;
  for (std::size_t at = 0; at < a.size(); at += sizeof(Bits), ++position) {
    Bits bits_a, bits_b;
    std::memcpy(&bits_a, a.data() + at, sizeof(Bits));
    std::memcpy(&bits_b, b.data() + at, sizeof(Bits));
    if (bits_a == bits_b) continue;
    ++result.elements;
    const double distance = Type::distance(bits_a, bits_b);
    if (!(distance > result.largest)) continue;
    result.largest = distance;
    result.position = position;
    result.bits_a = bits_a;
    result.bits_b = bits_b;
  }
}

/// The shortest text that reads back as the same number of that type, in every locale.
template <class Number, class... Format>
std::string number(Number value, Format... format) {
  std::array<char, 64> buffer;
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, format...).ptr;
  return {buffer.data(), end};
}

std::string value_text(DType dtype, std::uint64_t bits, bool with_bits) {
  return with_type(dtype, [&](auto type) {
    using Type = decltype(type);
    using Bits = typename Type::Bits;
    std::string text = number(Type::value(static_cast<Bits>(bits)));
    if (with_bits) {
      const std::string digits = number(bits, 16);
      text += " (0x" + std::string(2 * sizeof(Bits) - digits.size(), '0') + digits + ")";
    }
    return text;
  });
}

std::vector<std::int64_t> unravel(std::int64_t position, const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> index(shape.size());
  for (std::size_t i = shape.size(); i-- > 0;) {
    index[i] = position % shape[i];
    position /= shape[i];
  }
  return index;
}

}  // namespace

void compare_elements(DType dtype, std::span<const std::byte> a, std::span<const std::byte> b,
                      std::int64_t position, ElementDifference& result) {
  if (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0) return;
  with_type(dtype, [&](auto type) { compare<decltype(type)>(a, b, position, result); });
}

std::string to_text(const ElementDifference& difference, DType dtype,
                    const std::vector<std::int64_t>& shape) {
  std::int64_t numel = 1;
  for (const std::int64_t dimension : shape) numel *= dimension;
  const bool only_bits = difference.largest == 0;
  const std::string how =
      only_bits ? "in bits only, the first"
                : "largest difference " + number(difference.largest, std::chars_format::general, 6);
  return std::to_string(difference.elements) + " of " + std::to_string(numel) +
         (only_bits ? " elements differ " : " elements differ, ") + how + " at " +
         shape_text(unravel(difference.position, shape)) + ": " +
         value_text(dtype, difference.bits_a, only_bits) + " and " +
         value_text(dtype, difference.bits_b, only_bits);
}

}  // namespace zero::checkpoint
