#pragma once

/// The bodies of the kernels that add ranks' numbers, for one thread each.

#include <bit>
#include <cstdint>

#include "libzero/kernels/block_norm.h"
#include "libzero/kernels/cuda/abi.h"
#include "libzero/kernels/cuda/elements.h"

namespace zero::cuda {

/// Lanes of block_sum_of_squares(): as many threads share one block of the norm.
inline constexpr int kLanes = 16;
inline constexpr int kPerLane = static_cast<int>(kNormBlock) / kLanes;

template <class T>
ZERO_HOST_DEVICE float sum_of_element(const OrderedSum& args, std::int64_t i) {
  float sum = args.accumulate != 0 ? args.out[i] : 0.0f;
  for (std::int32_t r = 0; r < args.ranks; ++r) {
    const T* const part = r == args.own_rank ? static_cast<const T*>(args.own)
                                             : static_cast<const T*>(args.parts) + r * args.stride;
    sum = sum + widened(part[i]);
  }
  return sum;
}

/// One lane of one block of the norm: elements lane, lane + 16, ... of it. Returns the lane's sum
/// of squares.
template <class T>
ZERO_HOST_DEVICE double sum_lane(const OrderedSum& args, std::int64_t block, int lane) {
  // All loads come before the first store, which might lie where one of them reads, for all that a
  // compiler knows: they are on their way together.
  float sums[kPerLane] = {};
  const std::int64_t first = block * kNormBlock + lane;
  for (int j = 0; j < kPerLane; ++j) {
    const std::int64_t i = first + j * kLanes;
    if (i < args.count) sums[j] = sum_of_element<T>(args, i);
  }
  double squares = 0;
  for (int j = 0; j < kPerLane; ++j) {
    const std::int64_t i = first + j * kLanes;
    if (i >= args.count) break;
    args.out[i] = sums[j];
    squares += static_cast<double>(sums[j]) * static_cast<double>(sums[j]);
  }
  return squares;
}

template <class T>
ZERO_HOST_DEVICE void reduce_element(const OrderedReduce& args, std::int64_t i) {
  float sum = 0.0f;
  for (std::int32_t r = 0; r < args.ranks; ++r) {
    sum = sum + widened(static_cast<const T*>(args.parts)[r * args.stride + i]);
  }
  store(sum, static_cast<T*>(args.out)[i]);
}

ZERO_HOST_DEVICE inline void reduce_int64(const OrderedReduce& args, std::int64_t i) {
  const auto* const parts = static_cast<const std::int64_t*>(args.parts);
  std::int64_t result = parts[i];
  for (std::int32_t r = 1; r < args.ranks; ++r) {
    const std::int64_t part = parts[r * args.stride + i];
    if (args.maximum == 0) {  // unsigned addition wraps
      result = static_cast<std::int64_t>(static_cast<std::uint64_t>(result) +
                                         static_cast<std::uint64_t>(part));
    } else if (part > result) {
      result = part;
    }
  }
  static_cast<std::int64_t*>(args.out)[i] = result;
}

/// Calls add(word, digit) for what one term adds to the words of SumExactly.
template <class Add>
ZERO_HOST_DEVICE void add_exactly(double value, Add add) {
  if ((std::bit_cast<std::uint64_t>(value) & 0x7ff0000000000000u) == 0x7ff0000000000000u) {
    add(kExactWords, std::uint64_t{1});  // infinity or NaN
    return;
  }
  const ExactDigits digits = exact_digits(value);
  for (int k = 0; k < 3; ++k) {
    if (digits.digit[k] != 0) add(digits.word + k, digits.digit[k]);
  }
}

}  // namespace zero::cuda
