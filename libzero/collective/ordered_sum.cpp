#include "libzero/collective/ordered_sum.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "libzero/base/error.h"
#include "libzero/base/float16.h"

namespace zero {
namespace {

struct Float32 {
  using Stored = float;
  static float widen(float value) { return value; }
  static float narrow(float value) { return value; }
};

struct BFloat16 {
  using Stored = std::uint16_t;
  static float widen(std::uint16_t bits) { return float_from_bfloat16(bits); }
  static std::uint16_t narrow(float value) { return bfloat16_from_float(value); }
};

struct Float16 {
  using Stored = std::uint16_t;
  static float widen(std::uint16_t bits) { return float_from_float16(bits); }
  static std::uint16_t narrow(float value) { return float16_from_float(value); }
};

// Both loops are written for the vectoriser: one array each, no aliasing, no branch.
template <typename Type>
void add(float* __restrict out, const typename Type::Stored* __restrict in, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) out[i] += Type::widen(in[i]);
}

template <typename Type>
void narrow(typename Type::Stored* __restrict out, const float* __restrict in, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = Type::narrow(in[i]);
}

/// Elements [begin, begin + count) of every part onto out[0 .. count), which is in cache.
template <typename Type>
void add_parts(Parts parts, std::int64_t begin, float* out, std::int64_t count, bool accumulate) {
  // Adding onto +0 instead of copying part 0 turns -0 into +0, as the contract's formula does.
  if (!accumulate) std::fill_n(out, count, 0.0f);
  for (const void* part : parts) {
    add<Type>(out, static_cast<const typename Type::Stored*>(part) + begin, count);
  }
}

template <typename Type>
void sum(Parts parts, float* out, std::int64_t count, bool accumulate, const Epilogue& epilogue,
         std::int64_t first) {
  for (std::int64_t begin = 0; begin < count; begin += kEpilogueBlock) {
    const std::int64_t piece = std::min(kEpilogueBlock, count - begin);
    add_parts<Type>(parts, begin, out + begin, piece, accumulate);
    if (epilogue) epilogue(first + begin, piece);
  }
}

template <typename Type>
void sum_and_round(Parts parts, std::span<void* const> outs, std::int64_t count) {
  using Stored = typename Type::Stored;
  float scratch[kEpilogueBlock];
  for (std::int64_t begin = 0; begin < count; begin += kEpilogueBlock) {
    const std::int64_t piece = std::min(kEpilogueBlock, count - begin);
    add_parts<Type>(parts, begin, scratch, piece, false);
    for (void* out : outs) narrow<Type>(static_cast<Stored*>(out) + begin, scratch, piece);
  }
}

template <typename Combine>
void combine_int64(Parts parts, std::span<void* const> outs, std::int64_t count, Combine combine) {
  std::int64_t scratch[kEpilogueBlock];
  for (std::int64_t begin = 0; begin < count; begin += kEpilogueBlock) {
    const std::int64_t piece = std::min(kEpilogueBlock, count - begin);
    const auto at = [&](std::size_t part) {
      return static_cast<const std::int64_t*>(parts[part]) + begin;
    };
    std::copy_n(at(0), piece, scratch);
    for (std::size_t part = 1; part < parts.size(); ++part) {
      const std::int64_t* in = at(part);
      for (std::int64_t i = 0; i < piece; ++i) scratch[i] = combine(scratch[i], in[i]);
    }
    for (void* out : outs) std::copy_n(scratch, piece, static_cast<std::int64_t*>(out) + begin);
  }
}

void reduce_int64(Parts parts, ReduceOp op, std::span<void* const> outs, std::int64_t count) {
  if (op == ReduceOp::kMax) {
    combine_int64(parts, outs, count,
                  [](std::int64_t a, std::int64_t b) { return std::max(a, b); });
    return;
  }
  // Unsigned addition wraps; the signed one would be undefined.
  combine_int64(parts, outs, count, [](std::int64_t a, std::int64_t b) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  });
}

[[noreturn]] void refuse(const char* function, DType dtype) {
  throw ContractError(
      std::string(function) +
      ": this reduction does not exist for the element type; sums take float32, bfloat16, float16 "
      "and int64, maxima int64: " +
      std::string(name_of(dtype)));
}

}  // namespace

void ordered_sum(Parts parts, DType dtype, float* out, std::int64_t count, bool accumulate,
                 const Epilogue& epilogue, std::int64_t first) {
  switch (dtype) {
    case DType::kFloat32:
      return sum<Float32>(parts, out, count, accumulate, epilogue, first);
    case DType::kBFloat16:
      return sum<BFloat16>(parts, out, count, accumulate, epilogue, first);
    case DType::kFloat16:
      return sum<Float16>(parts, out, count, accumulate, epilogue, first);
    case DType::kInt64:
    case DType::kUInt8:
      break;
  }
  refuse("ordered_sum", dtype);
}

void ordered_reduce(Parts parts, DType dtype, ReduceOp op, std::span<void* const> outs,
                    std::int64_t count) {
  if (dtype == DType::kInt64) return reduce_int64(parts, op, outs, count);
  if (op == ReduceOp::kSum) {
    switch (dtype) {
      case DType::kFloat32:
        return sum_and_round<Float32>(parts, outs, count);
      case DType::kBFloat16:
        return sum_and_round<BFloat16>(parts, outs, count);
      case DType::kFloat16:
        return sum_and_round<Float16>(parts, outs, count);
      case DType::kInt64:
      case DType::kUInt8:
        break;
    }
  }
  refuse("ordered_reduce", dtype);
}

}  // namespace zero
