// Included once for each instruction set: see hwy/foreach_target.h. No #pragma once here.
#if defined(LIBZERO_KERNELS_SQUARES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LIBZERO_KERNELS_SQUARES_INL_H_
#undef LIBZERO_KERNELS_SQUARES_INL_H_
#else
#define LIBZERO_KERNELS_SQUARES_INL_H_
#endif

/// The sixteen lanes of block_sum_of_squares().

#include <hwy/highway.h>
#include "libzero/kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zero::HWY_NAMESPACE {

/// The lanes of one vector in pairwise rounds: lane l += lane l + half as many as there are.
template <class D>
HWY_INLINE double fold(D d, hn::Vec<D> value) {
#if HWY_TARGET != HWY_SCALAR  // whose vectors of one element have no upper half
  if constexpr (hn::MaxLanes(D()) > 1) {
    const hn::Half<D> half;
    return fold(half, hn::Add(hn::LowerHalf(half, value), hn::UpperHalf(half, value)));
  }
#endif
  (void)d;
  return hn::GetLane(value);
}

/// Sums of squares of a block's elements, by i mod 16.
class SquareLanes {
 public:
  SquareLanes() {
    for (auto& lanes : sums_) lanes = hn::Zero(kDoubles);
  }

  /// `value`: elements whose lanes begin at `lane`, a multiple of the vector's length.
  HWY_INLINE void add(std::size_t lane, hn::Vec<Wide> value) {
    const std::size_t at = lane / hn::MaxLanes(kDoubles);
    // The square of a float is exact in a double: fused or not, the bits are the same.
    const auto low = hn::PromoteTo(kDoubles, hn::LowerHalf(kFloats, value));
    sums_[at] = hn::MulAdd(low, low, sums_[at]);
#if HWY_TARGET != HWY_SCALAR  // whose vectors of one element have no upper half
    const auto high = hn::PromoteTo(kDoubles, hn::UpperHalf(kFloats, value));
    sums_[at + 1] = hn::MulAdd(high, high, sums_[at + 1]);
#endif
  }

  /// The pairwise rounds.
  HWY_INLINE double finish() const {
    hn::Vec<Doubles> sums[kVectors];
    for (std::size_t i = 0; i < kVectors; ++i) sums[i] = sums_[i];
    for (std::size_t half = kVectors / 2; half > 0; half /= 2) {
      for (std::size_t i = 0; i < half; ++i) sums[i] = hn::Add(sums[i], sums[i + half]);
    }
    return fold(kDoubles, sums[0]);
  }

  /// The rest of a block, fewer than 16 elements; then the pairwise rounds.
  double finish(const float* rest, std::size_t count) const {
    HWY_ALIGN double lanes[kWidth];
    for (std::size_t i = 0; i < kVectors; ++i) {
      hn::Store(sums_[i], kDoubles, lanes + i * hn::MaxLanes(kDoubles));
    }
    for (std::size_t i = 0; i < count; ++i) {
      const auto value = static_cast<double>(rest[i]);
      lanes[i] += value * value;
    }
    for (std::size_t half = kWidth / 2; half > 0; half /= 2) {
      for (std::size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
    }
    return lanes[0];
  }

 private:
  // As many doubles as a vector holds are half a vector of floats.
  using Floats = hn::Half<Wide>;
  using Doubles = hn::Rebind<double, Floats>;
  static constexpr Floats kFloats{};
  static constexpr Doubles kDoubles{};
  static constexpr std::size_t kVectors = kWidth / hn::MaxLanes(kDoubles);

  hn::Vec<Doubles> sums_[kVectors];
};

}  // namespace zero::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // LIBZERO_KERNELS_SQUARES_INL_H_
