#include "libzero/kernels/ema.h"

// Compiles this file once for each instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "libzero/kernels/ema.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include "libzero/kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zero::HWY_NAMESPACE {
namespace {

template <class D>
HWY_INLINE void average_vector(D d, hn::Vec<D> weight, const float* values, float* average) {
  const auto e = hn::LoadU(d, average);
  hn::StoreU(hn::Add(e, hn::Mul(weight, hn::Sub(hn::LoadU(d, values), e))), d, average);
}

void average(float weight, const float* values, float* average, std::int64_t count) {
  const auto n = static_cast<std::size_t>(count);
  const Wide d;
  const Single single;
  const auto wide_weight = hn::Set(d, weight);
  std::size_t i = 0;
  for (; i + kWidth <= n; i += kWidth) {
    for (std::size_t j = i; j < i + kWidth; j += hn::Lanes(d))
      average_vector(d, wide_weight, values + j, average + j);
  }
  for (; i < n; ++i) average_vector(single, hn::Set(single, weight), values + i, average + i);
}

}  // namespace
}  // namespace zero::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zero {
namespace {
HWY_EXPORT(average);
}

void ema_step(float weight, const float* values, float* average, std::int64_t n) {
  HWY_DYNAMIC_DISPATCH(average)(weight, values, average, n);
}

}  // namespace zero
#endif  // HWY_ONCE
