#include "tests/conformance/array.h"

#include <bit>
#include <cstring>

#include "libzero/base/error.h"
#include "libzero/base/float16.h"

namespace zero::testing {
namespace {

std::uint64_t mix(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t x = seed * 0x9e3779b97f4a7c15u + index + 1;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// Sign, mantissa and one of 21 exponents around 1.
float spread_float(std::uint64_t bits) {
  const auto exponent = static_cast<std::uint32_t>(117 + (bits >> 32) % 21);
  const auto low = static_cast<std::uint32_t>(bits);
  return std::bit_cast<float>((low & 0x807fffffu) | (exponent << 23));
}

}  // namespace

std::string title_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "Float32";
    case DType::kBFloat16:
      return "BFloat16";
    case DType::kFloat16:
      return "Float16";
    case DType::kInt64:
      return "Int64";
    case DType::kUInt8:
      return "UInt8";
  }
  return "Unknown";
}

Array::Array(DType dtype, std::int64_t count)
    : dtype_(dtype),
      count_(count),
      bytes_(static_cast<std::size_t>(count * size_of(dtype)), std::byte{0xa5}) {}

ConstBuffer Array::slice(std::int64_t begin, std::int64_t count) const {
  return {bytes_.data() + begin * size_of(dtype_), count, dtype_};
}

float Array::at(std::int64_t index) const {
  const std::byte* from = bytes_.data() + index * size_of(dtype_);
  if (dtype_ == DType::kFloat32) {
    float value = 0;
    std::memcpy(&value, from, sizeof value);
    return value;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, from, sizeof bits);
  return dtype_ == DType::kBFloat16 ? float_from_bfloat16(bits) : float_from_float16(bits);
}

void Array::set(std::int64_t index, float value) {
  std::byte* to = bytes_.data() + index * size_of(dtype_);
  if (dtype_ == DType::kFloat32) {
    std::memcpy(to, &value, sizeof value);
    return;
  }
  const std::uint16_t bits =
      dtype_ == DType::kBFloat16 ? bfloat16_from_float(value) : float16_from_float(value);
  std::memcpy(to, &bits, sizeof bits);
}

std::int64_t Array::int_at(std::int64_t index) const {
  std::int64_t value = 0;
  std::memcpy(&value, bytes_.data() + index * size_of(dtype_), sizeof value);
  return value;
}

void Array::set_int(std::int64_t index, std::int64_t value) {
  std::memcpy(bytes_.data() + index * size_of(dtype_), &value, sizeof value);
}

void Array::write_slice(std::int64_t begin, const Array& part) {
  if (part.bytes_.empty()) return;
  std::memcpy(bytes_.data() + begin * size_of(dtype_), part.bytes_.data(), part.bytes_.size());
}

Array pattern(DType dtype, std::int64_t count, int seed, std::int64_t first) {
  Array array(dtype, count);
  auto* bytes = static_cast<std::byte*>(array.buffer().data);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t bits =
        mix(static_cast<std::uint64_t>(seed), static_cast<std::uint64_t>(first + i));
    if (is_floating(dtype)) {
      array.set(i, spread_float(bits));
    } else {
      std::memcpy(bytes + i * size_of(dtype), &bits, static_cast<std::size_t>(size_of(dtype)));
    }
  }
  return array;
}

float sum_in_rank_order(const std::vector<Array>& parts, std::int64_t index, float start) {
  float sum = start;
  for (const Array& part : parts) sum = sum + part.at(index);
  return sum;
}

std::vector<Array> rank_patterns(DType dtype, std::int64_t count, int ranks, int base,
                                 std::int64_t first) {
  std::vector<Array> parts;
  for (int rank = 0; rank < ranks; ++rank)
    parts.push_back(pattern(dtype, count, base + rank, first));
  return parts;
}

}  // namespace zero::testing
