#include "libzero/kernels/cast.h"

#include <cstddef>
#include <cstring>
#include <string>

#include "libzero/base/error.h"

// Compiles this file once for each instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "libzero/kernels/cast.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include "libzero/kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zero::HWY_NAMESPACE {
namespace {

template <class From, class To>
void cast_run(const void* from, void* to, std::size_t n) {
  const auto* const source = static_cast<const typename From::Stored*>(from);
  auto* const target = static_cast<typename To::Stored*>(to);
  const Wide d;
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d))
    To::store(d, From::load(d, source + i), target + i);
  for (; i < n; ++i) To::store(Single(), From::load(Single(), source + i), target + i);
}

template <class From>
void cast_from(const void* from, void* to, DType to_dtype, std::size_t n) {
  if (to_dtype == DType::kFloat32) return cast_run<From, Float32>(from, to, n);
  if (to_dtype == DType::kBFloat16) return cast_run<From, BFloat16>(from, to, n);
  return cast_run<From, Float16>(from, to, n);
}

void cast(const void* from, DType from_dtype, void* to, DType to_dtype, std::size_t n) {
  if (from_dtype == DType::kFloat32) return cast_from<Float32>(from, to, to_dtype, n);
  if (from_dtype == DType::kBFloat16) return cast_from<BFloat16>(from, to, to_dtype, n);
  return cast_from<Float16>(from, to, to_dtype, n);
}

}  // namespace
}  // namespace zero::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zero {
namespace {
HWY_EXPORT(cast);
}

void cast_elements(const void* from, DType from_dtype, void* to, DType to_dtype, std::int64_t n) {
  ZERO_REQUIRE(is_floating(from_dtype) && is_floating(to_dtype),
               "Elements are cast between float32, bfloat16 and float16 only: " +
                   std::string(name_of(from_dtype)) + " to " + std::string(name_of(to_dtype)));
  const auto count = static_cast<std::size_t>(n);
  if (from_dtype != to_dtype) {
    HWY_DYNAMIC_DISPATCH(cast)(from, from_dtype, to, to_dtype, count);
  } else if (count > 0) {
    std::memcpy(to, from, count * static_cast<std::size_t>(size_of(to_dtype)));
  }
}

}  // namespace zero
#endif  // HWY_ONCE
