#pragma once

/// The element types as kernels load and store them; the bits are those of float16.h.

#include <cstdint>

#include "libzero/base/dtype.h"
#include "libzero/base/float16.h"
#include "libzero/kernels/host_device.h"

namespace zero::cuda {

struct BFloat16 {
  std::uint16_t bits;
};
struct Float16 {
  std::uint16_t bits;
};

ZERO_HOST_DEVICE inline float widened(float value) {
  return value;
}
ZERO_HOST_DEVICE inline float widened(BFloat16 value) {
  return float_from_bfloat16(value.bits);
}
ZERO_HOST_DEVICE inline float widened(Float16 value) {
  return float_from_float16(value.bits);
}

ZERO_HOST_DEVICE inline void store(float value, float& to) {
  to = value;
}
ZERO_HOST_DEVICE inline void store(float value, BFloat16& to) {
  to = {bfloat16_from_float(value)};
}
ZERO_HOST_DEVICE inline void store(float value, Float16& to) {
  to = {float16_from_float(value)};
}

/// Four neighbouring elements, loaded and stored at once.
template <class T>
struct alignas(4 * sizeof(T)) Four {
  T of[4];
};

template <class T>
ZERO_HOST_DEVICE bool is_aligned(const T* data) {
  return reinterpret_cast<std::uintptr_t>(data) % sizeof(Four<T>) == 0;
}

/// Elements 4 q to 4 q + 3 of aligned data.
template <class T>
ZERO_HOST_DEVICE Four<T>& four(T* data, std::int64_t q) {
  return reinterpret_cast<Four<T>*>(data)[q];
}
template <class T>
ZERO_HOST_DEVICE const Four<T>& four(const T* data, std::int64_t q) {
  return reinterpret_cast<const Four<T>*>(data)[q];
}

/// Calls function(T()) for the element type T of a floating dtype; false for another one.
template <class Function>
bool with_element(DType dtype, Function function) {
  switch (dtype) {
    case DType::kFloat32:
      function(float());
      return true;
    case DType::kBFloat16:
      function(BFloat16());
      return true;
    case DType::kFloat16:
      function(Float16());
      return true;
    default:
      return false;
  }
}

}  // namespace zero::cuda
