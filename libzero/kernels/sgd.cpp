#include "libzero/kernels/sgd.h"

#include <string>

#include "libzero/base/error.h"
#include "libzero/kernels/run_checks.h"

// Compiles this file once for each instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "libzero/kernels/sgd.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include "libzero/kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zero::HWY_NAMESPACE {
namespace {

// How far ahead of the arithmetic memory is asked for, in elements.
constexpr std::size_t kAhead = 256;

enum class Momentum : std::uint8_t { kNone, kPlain, kNesterov };

template <class D>
struct VectorConstants {
  VectorConstants(D d, const SGDConstants& c, float gradient_factor)
      : factor(hn::Set(d, gradient_factor)),
        decay(hn::Set(d, c.decay)),
        momentum(hn::Set(d, c.momentum)),
        lr(hn::Set(d, c.lr)) {}

  hn::Vec<D> factor, decay, momentum, lr;
};

template <class Gradient>
struct Streams {
  const typename Gradient::Stored* gradient;
  float* master;
  float* buffer;
  std::uint16_t* low_precision;
};

/// One vector at element i; the formulas of sgd.h, line by line.
template <Momentum kMomentum, class Gradient, class Copy, class D>
HWY_INLINE void step_vector(D d, const VectorConstants<D>& c, const Streams<Gradient>& s,
                            std::size_t i) {
  const auto g = hn::Mul(Gradient::load(d, s.gradient + i), c.factor);
  auto direction = g;
  if constexpr (kMomentum != Momentum::kNone) {
    const auto b = hn::Add(hn::Mul(c.momentum, hn::LoadU(d, s.buffer + i)), g);
    hn::StoreU(b, d, s.buffer + i);
    direction = kMomentum == Momentum::kNesterov ? hn::Add(g, hn::Mul(c.momentum, b)) : b;
  }
  const auto p = hn::Sub(hn::Mul(hn::LoadU(d, s.master + i), c.decay), hn::Mul(c.lr, direction));
  hn::StoreU(p, d, s.master + i);
  // A float32 parameter is its own master: nothing more to write.
  if constexpr (sizeof(typename Copy::Stored) == 2) Copy::store(d, p, s.low_precision + i);
}

template <Momentum kMomentum, class Gradient, class Copy>
void step_run(const SGDConstants& constants, const SGDRun& run) {
  const Streams<Gradient> s = {static_cast<const typename Gradient::Stored*>(run.gradient),
                               run.master, run.momentum_buffer,
                               static_cast<std::uint16_t*>(run.low_precision)};
  const auto n = static_cast<std::size_t>(run.n);
  const Wide d;
  const VectorConstants<Wide> c(d, constants, run.gradient_factor);
  std::size_t i = 0;
  for (; i + kWidth <= n; i += kWidth) {
    hwy::Prefetch(s.gradient + i + kAhead);
    hwy::Prefetch(s.master + i + kAhead);
    if constexpr (kMomentum != Momentum::kNone) hwy::Prefetch(s.buffer + i + kAhead);
    for (std::size_t j = 0; j < kWidth; j += hn::Lanes(d)) {
      step_vector<kMomentum, Gradient, Copy>(d, c, s, i + j);
    }
  }
  const Single single;
  const VectorConstants<Single> last(single, constants, run.gradient_factor);
  for (; i < n; ++i) step_vector<kMomentum, Gradient, Copy>(single, last, s, i);
}

template <Momentum kMomentum, class Gradient>
void step_gradient(const SGDConstants& constants, const SGDRun& run) {
  if (run.low_precision == nullptr) return step_run<kMomentum, Gradient, Float32>(constants, run);
  if (run.low_precision_dtype == DType::kBFloat16)
    return step_run<kMomentum, Gradient, BFloat16>(constants, run);
  return step_run<kMomentum, Gradient, Float16>(constants, run);
}

template <Momentum kMomentum>
void step_momentum(const SGDConstants& constants, const SGDRun& run) {
  if (run.gradient_dtype == DType::kFloat32)
    return step_gradient<kMomentum, Float32>(constants, run);
  if (run.gradient_dtype == DType::kBFloat16)
    return step_gradient<kMomentum, BFloat16>(constants, run);
  return step_gradient<kMomentum, Float16>(constants, run);
}

void step(const SGDConstants& constants, const SGDRun& run) {
  if (run.momentum_buffer == nullptr) return step_momentum<Momentum::kNone>(constants, run);
  if (constants.nesterov) return step_momentum<Momentum::kNesterov>(constants, run);
  return step_momentum<Momentum::kPlain>(constants, run);
}

}  // namespace
}  // namespace zero::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zero {
namespace {
HWY_EXPORT(step);
}

void sgd_step(const SGDConstants& constants, const SGDRun& run) {
  require_dtypes(run, "SGD");
  ZERO_REQUIRE(run.momentum_buffer != nullptr || constants.momentum == 0,
               "An SGD step with momentum needs a momentum_buffer: momentum is " +
                   std::to_string(constants.momentum));
  HWY_DYNAMIC_DISPATCH(step)(constants, run);
}

}  // namespace zero
#endif  // HWY_ONCE
