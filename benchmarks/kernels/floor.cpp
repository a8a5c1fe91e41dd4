#include "floor.h"

// Compiles this file once for each instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "benchmarks/kernels/floor.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include "libzero/kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zero::HWY_NAMESPACE {
namespace {

template <class Gradient, class Copy>
void walk(const AdamWRun& run) {
  const auto* gradient = static_cast<const typename Gradient::Stored*>(run.gradient);
  auto* copy = static_cast<typename Copy::Stored*>(run.low_precision);
  const Wide d;
  const auto n = static_cast<std::size_t>(run.n) / kWidth * kWidth;
  for (std::size_t i = 0; i < n; i += hn::Lanes(d)) {
    const auto g = Gradient::load(d, gradient + i);
    const auto p = hn::Add(hn::LoadU(d, run.master + i), g);
    hn::StoreU(hn::Add(hn::LoadU(d, run.exp_avg + i), g), d, run.exp_avg + i);
    hn::StoreU(hn::Add(hn::LoadU(d, run.exp_avg_sq + i), g), d, run.exp_avg_sq + i);
    hn::StoreU(p, d, run.master + i);
    if constexpr (sizeof(typename Copy::Stored) == 2) {  // cut off, not rounded
      const hn::Rebind<std::uint16_t, Wide> d16;
      const hn::Rebind<std::uint32_t, Wide> d32;
      hn::StoreU(hn::TruncateTo(d16, hn::ShiftRight<16>(hn::BitCast(d32, p))), d16, copy + i);
    }
  }
}

void walk_run(const AdamWRun& run) {
  const bool wide = run.gradient_dtype == DType::kFloat32;
  if (run.low_precision == nullptr)
    return wide ? walk<Float32, Float32>(run) : walk<BFloat16, Float32>(run);
  return wide ? walk<Float32, BFloat16>(run) : walk<BFloat16, BFloat16>(run);
}

}  // namespace
}  // namespace zero::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zero {
namespace {
HWY_EXPORT(walk_run);
}

namespace benchmark {

void walk_streams(const AdamWRun& run) {
  HWY_DYNAMIC_DISPATCH(walk_run)(run);
}

}  // namespace benchmark
}  // namespace zero
#endif  // HWY_ONCE
