// Included once for each instruction set: see hwy/foreach_target.h. No #pragma once here.
#if defined(LIBZERO_KERNELS_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LIBZERO_KERNELS_VECTORS_INL_H_
#undef LIBZERO_KERNELS_VECTORS_INL_H_
#else
#define LIBZERO_KERNELS_VECTORS_INL_H_
#endif

/// Elements of the three floating types as vectors of float: how they are loaded, and how they are
/// rounded and stored. The bits are those of libzero/base/float16.h on every instruction set.

#include <cstdint>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace zero::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// No vector is longer than this, and every instruction set's divides it.
inline constexpr std::size_t kWidth = 16;
using Wide = hn::CappedTag<float, kWidth>;
using Single = hn::CappedTag<float, 1>;  // what is left at the end of a run

struct Float32 {
  using Stored = float;

  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const float* from) {
    return hn::LoadU(d, from);
  }

  template <class D>
  static HWY_INLINE void store(D d, hn::Vec<D> value, float* to) {
    hn::StoreU(value, d, to);
  }
};

struct BFloat16 {
  using Stored = std::uint16_t;

  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const std::uint16_t* from) {
    const hn::Rebind<std::uint16_t, D> d16;
    const hn::Rebind<std::uint32_t, D> d32;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, hn::LoadU(d16, from))));
  }

  template <class D>
  static HWY_INLINE void store(D, hn::Vec<D> value, std::uint16_t* to) {
    const hn::Rebind<std::uint16_t, D> d16;
    const hn::Rebind<std::uint32_t, D> d32;
    const auto bits = hn::BitCast(d32, value);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 1));
    const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(d32, 0x7fff)), odd));
    const auto result =
        hn::IfThenElse(hn::RebindMask(d32, hn::IsNaN(value)), hn::Set(d32, 0x7fc0), rounded);
    hn::StoreU(hn::TruncateTo(d16, result), d16, to);
  }
};

struct Float16 {
  using Stored = std::uint16_t;

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2  // F16C; it rounds as we do, but for NaN's payload

  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const std::uint16_t* from) {
    const hn::Rebind<std::uint16_t, D> d16;
    const hn::Rebind<hwy::float16_t, D> half;
    return hn::PromoteTo(d, hn::BitCast(half, hn::LoadU(d16, from)));
  }

  template <class D>
  static HWY_INLINE void store(D d, hn::Vec<D> value, std::uint16_t* to) {
    const hn::Rebind<std::uint16_t, D> d16;
    const hn::Rebind<std::uint32_t, D> d32;
    const hn::Rebind<hwy::float16_t, D> half;
    // All NaN of one sign become one; what is left of the payload is what the format keeps of it.
    const auto sign = hn::And(hn::BitCast(d32, value), hn::Set(d32, 0x80000000u));
    const auto quiet = hn::BitCast(d, hn::Or(sign, hn::Set(d32, 0x7fc00000u)));
    const auto plain = hn::IfThenElse(hn::IsNaN(value), quiet, value);
    hn::StoreU(hn::BitCast(d16, hn::DemoteTo(half, plain)), d16, to);
  }

#else  // in integers; every case is calculated and one selected, see float16.h

  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const std::uint16_t* from) {
    const hn::Rebind<std::uint16_t, D> d16;
    const hn::Rebind<std::int32_t, D> d32;
    const auto half = hn::PromoteTo(d32, hn::LoadU(d16, from));
    const auto sign = hn::ShiftLeft<16>(hn::And(half, hn::Set(d32, 0x8000)));
    const auto magnitude = hn::And(half, hn::Set(d32, 0x7fff));
    const auto normal = hn::Add(hn::ShiftLeft<13>(magnitude), hn::Set(d32, 0x38000000));
    const auto quiet =
        hn::IfThenElseZero(hn::Gt(magnitude, hn::Set(d32, 0x7c00)), hn::Set(d32, 0x00400000));
    const auto special = hn::Or(hn::Add(normal, hn::Set(d32, 0x38000000)), quiet);
    const auto small = hn::BitCast(d32, hn::Mul(hn::ConvertTo(d, magnitude), hn::Set(d, 0x1p-24f)));
    auto bits = hn::IfThenElse(hn::Lt(magnitude, hn::Set(d32, 0x0400)), small, normal);
    bits = hn::IfThenElse(hn::Gt(magnitude, hn::Set(d32, 0x7bff)), special, bits);
    return hn::BitCast(d, hn::Or(sign, bits));
  }

  template <class D>
  static HWY_INLINE void store(D d, hn::Vec<D> value, std::uint16_t* to) {
    const hn::Rebind<std::uint16_t, D> d16;
    const hn::Rebind<std::uint32_t, D> du32;
    const hn::Rebind<std::int32_t, D> d32;
    const auto bits = hn::BitCast(du32, value);
    const auto sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(du32, 0x8000));
    const auto magnitude = hn::BitCast(d32, hn::And(bits, hn::Set(du32, 0x7fffffff)));
    const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(d32, 1));
    const auto normal =
        hn::ShiftRight<13>(hn::Add(hn::Sub(magnitude, hn::Set(d32, 0x38000000 - 0x0fff)), odd));
    const auto shifted = hn::Add(hn::BitCast(d, magnitude), hn::Set(d, 0.5f));
    const auto subnormal = hn::Sub(hn::BitCast(d32, shifted), hn::Set(d32, 0x3f000000));
    auto half = hn::IfThenElse(hn::Lt(magnitude, hn::Set(d32, 0x38800000)), subnormal, normal);
    half = hn::IfThenElse(hn::Gt(magnitude, hn::Set(d32, 0x477fefff)), hn::Set(d32, 0x7c00), half);
    half = hn::IfThenElse(hn::Gt(magnitude, hn::Set(d32, 0x7f800000)), hn::Set(d32, 0x7e00), half);
    hn::StoreU(hn::TruncateTo(d16, hn::Or(sign, hn::BitCast(du32, half))), d16, to);
  }

#endif
};

}  // namespace zero::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // LIBZERO_KERNELS_VECTORS_INL_H_
