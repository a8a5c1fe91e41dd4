#include "libzero/collective/ordered_sum.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "libzero/base/error.h"
#include "libzero/kernels/block_norm.h"
#include "libzero/kernels/cast.h"

namespace zero {
namespace {

void sum_and_round(Parts parts, DType dtype, std::span<void* const> outs, std::int64_t count) {
  float scratch[kEpilogueBlock];
  std::vector<const void*> at(parts.size());
  for (std::int64_t begin = 0; begin < count; begin += kEpilogueBlock) {
    const std::int64_t piece = std::min(kEpilogueBlock, count - begin);
    const std::int64_t offset = begin * size_of(dtype);
    for (std::size_t p = 0; p < parts.size(); ++p)
      at[p] = static_cast<const std::byte*>(parts[p]) + offset;
    sum_parts(at, dtype, scratch, piece, false, nullptr);
    for (void* out : outs)
      cast_elements(scratch, DType::kFloat32, static_cast<std::byte*>(out) + offset, dtype, piece);
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
                 const Epilogue& epilogue, std::int64_t first, double* block_squares) {
  if (!is_floating(dtype)) refuse("ordered_sum", dtype);
  static_assert(kEpilogueBlock % kNormBlock == 0, "a piece of the sum is whole blocks of the norm");
  double* const squares = block_squares == nullptr ? nullptr : block_squares + first / kNormBlock;
  if (!epilogue) return sum_parts(parts, dtype, out, count, accumulate, squares);
  std::vector<const void*> at(parts.begin(), parts.end());
  for (std::int64_t begin = 0; begin < count; begin += kEpilogueBlock) {
    const std::int64_t piece = std::min(kEpilogueBlock, count - begin);
    sum_parts(at, dtype, out + begin, piece, accumulate,
              squares == nullptr ? nullptr : squares + begin / kNormBlock);
    epilogue(first + begin, piece);
    for (const void*& part : at)
      part = static_cast<const std::byte*>(part) + piece * size_of(dtype);
  }
}

void ordered_reduce(Parts parts, DType dtype, ReduceOp op, std::span<void* const> outs,
                    std::int64_t count) {
  if (dtype == DType::kInt64) return reduce_int64(parts, op, outs, count);
  if (op == ReduceOp::kSum && is_floating(dtype)) return sum_and_round(parts, dtype, outs, count);
  refuse("ordered_reduce", dtype);
}

}  // namespace zero
