#include "libzero/kernels/narrow.h"

#include <string>

#include "libzero/base/error.h"

// Compiles this file once for each instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "libzero/kernels/narrow.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "libzero/kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zero::HWY_NAMESPACE {
namespace {

template <class To>
void narrow_all(const float* from, std::size_t count, void* to) {
  auto* const out = static_cast<typename To::Stored*>(to);
  const Wide d;
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d))
    To::store(d, hn::LoadU(d, from + i), out + i);
  const Single single;
  for (; i < count; ++i) To::store(single, hn::LoadU(single, from + i), out + i);
}

void narrow(const float* from, std::size_t count, DType dtype, void* to) {
  if (dtype == DType::kFloat32) return narrow_all<Float32>(from, count, to);
  if (dtype == DType::kBFloat16) return narrow_all<BFloat16>(from, count, to);
  return narrow_all<Float16>(from, count, to);
}

}  // namespace
}  // namespace zero::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zero {
namespace {
HWY_EXPORT(narrow);
}

void narrow_floats(const float* from, std::int64_t count, DType dtype, void* to) {
  ZERO_REQUIRE(is_floating(dtype), "Floats can be rounded to float32, bfloat16 or float16 only: " +
                                       std::string(name_of(dtype)));
  HWY_DYNAMIC_DISPATCH(narrow)(from, static_cast<std::size_t>(count), dtype, to);
}

}  // namespace zero
#endif  // HWY_ONCE
