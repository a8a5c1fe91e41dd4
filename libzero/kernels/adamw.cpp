#include "libzero/kernels/adamw.h"

#include "libzero/kernels/run_checks.h"

// Compiles this file once for each instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "libzero/kernels/adamw.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include "libzero/kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zero::HWY_NAMESPACE {
namespace {

// How far ahead of the arithmetic memory is asked for, in elements.
constexpr std::size_t kAhead = 256;

template <class D>
struct VectorConstants {
  VectorConstants(D d, const AdamWConstants& c, float gradient_factor)
      : factor(hn::Set(d, gradient_factor)),
        decay(hn::Set(d, c.decay)),
        beta1(hn::Set(d, c.beta1)),
        one_minus_beta1(hn::Set(d, c.one_minus_beta1)),
        beta2(hn::Set(d, c.beta2)),
        one_minus_beta2(hn::Set(d, c.one_minus_beta2)),
        step_size(hn::Set(d, c.step_size)),
        sqrt_bias_correction2(hn::Set(d, c.sqrt_bias_correction2)),
        eps(hn::Set(d, c.eps)) {}

  hn::Vec<D> factor, decay, beta1, one_minus_beta1, beta2, one_minus_beta2, step_size,
      sqrt_bias_correction2, eps;
};

template <class Gradient>
struct Streams {
  const typename Gradient::Stored* gradient;
  float* master;
  float* exp_avg;
  float* exp_avg_sq;
  std::uint16_t* low_precision;
};

/// One vector at element i; the formulas of adamw.h, line by line.
template <class Gradient, class Copy, class D>
HWY_INLINE void step_vector(D d, const VectorConstants<D>& c, const Streams<Gradient>& s,
                            std::size_t i) {
  const auto g = hn::Mul(Gradient::load(d, s.gradient + i), c.factor);
  const auto m =
      hn::Add(hn::Mul(c.beta1, hn::LoadU(d, s.exp_avg + i)), hn::Mul(c.one_minus_beta1, g));
  const auto v = hn::Add(hn::Mul(c.beta2, hn::LoadU(d, s.exp_avg_sq + i)),
                         hn::Mul(hn::Mul(c.one_minus_beta2, g), g));
  const auto denominator = hn::Add(hn::Div(hn::Sqrt(v), c.sqrt_bias_correction2), c.eps);
  const auto p = hn::Sub(hn::Mul(hn::LoadU(d, s.master + i), c.decay),
                         hn::Div(hn::Mul(c.step_size, m), denominator));
  hn::StoreU(m, d, s.exp_avg + i);
  hn::StoreU(v, d, s.exp_avg_sq + i);
  hn::StoreU(p, d, s.master + i);
  // A float32 parameter is its own master: nothing more to write.
  if constexpr (sizeof(typename Copy::Stored) == 2) Copy::store(d, p, s.low_precision + i);
}

template <class Gradient, class Copy>
void step_run(const AdamWConstants& constants, const AdamWRun& run) {
  const Streams<Gradient> s = {static_cast<const typename Gradient::Stored*>(run.gradient),
                               run.master, run.exp_avg, run.exp_avg_sq,
                               static_cast<std::uint16_t*>(run.low_precision)};
  const auto n = static_cast<std::size_t>(run.n);
  const Wide d;
  const VectorConstants<Wide> c(d, constants, run.gradient_factor);
  std::size_t i = 0;
  for (; i + kWidth <= n; i += kWidth) {
    hwy::Prefetch(s.gradient + i + kAhead);
    hwy::Prefetch(s.master + i + kAhead);
    hwy::Prefetch(s.exp_avg + i + kAhead);
    hwy::Prefetch(s.exp_avg_sq + i + kAhead);
    for (std::size_t j = 0; j < kWidth; j += hn::Lanes(d)) {
      step_vector<Gradient, Copy>(d, c, s, i + j);
    }
  }
  const Single single;
  const VectorConstants<Single> last(single, constants, run.gradient_factor);
  for (; i < n; ++i) step_vector<Gradient, Copy>(single, last, s, i);
}

template <class Gradient>
void step_gradient(const AdamWConstants& constants, const AdamWRun& run) {
  if (run.low_precision == nullptr) return step_run<Gradient, Float32>(constants, run);
  if (run.low_precision_dtype == DType::kBFloat16)
    return step_run<Gradient, BFloat16>(constants, run);
  return step_run<Gradient, Float16>(constants, run);
}

void step(const AdamWConstants& constants, const AdamWRun& run) {
  if (run.gradient_dtype == DType::kFloat32) return step_gradient<Float32>(constants, run);
  if (run.gradient_dtype == DType::kBFloat16) return step_gradient<BFloat16>(constants, run);
  return step_gradient<Float16>(constants, run);
}

}  // namespace
}  // namespace zero::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zero {
namespace {
HWY_EXPORT(step);
}

void adamw_step(const AdamWConstants& constants, const AdamWRun& run) {
  require_dtypes(run, "AdamW");
  HWY_DYNAMIC_DISPATCH(step)(constants, run);
}

}  // namespace zero
#endif  // HWY_ONCE
