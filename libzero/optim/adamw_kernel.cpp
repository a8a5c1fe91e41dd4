#include "libzero/optim/adamw_kernel.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>

#include "libzero/base/error.h"
#include "libzero/base/float16.h"
#include "libzero/base/number_text.h"

namespace zero {
namespace {

void require_not_negative(double value, std::string_view name) {
  ZERO_REQUIRE(value >= 0 && value <= std::numeric_limits<double>::max(),
               "An AdamW option must be finite and not negative: " + std::string(name) + " is " +
                   number_text(value));
}

void require_beta(double value, std::string_view name) {
  // Below 1 in float32 too, or the moment would never forget.
  ZERO_REQUIRE(value >= 0 && static_cast<float>(value) < 1.0f,
               "An AdamW option must be at least 0 and less than 1 in float32: " +
                   std::string(name) + " is " + number_text(value));
}

/// base^exponent by squaring: std::pow differs between C libraries and, inside one, between CPUs
/// with and without FMA.
double power(double base, std::int64_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result *= base;
    base *= base;
  }
  return result;
}

template <std::uint16_t (*kConvert)(float) noexcept>
void convert(const float* from, std::uint16_t* to, std::int64_t n) noexcept {
  for (std::int64_t i = 0; i < n; ++i) to[i] = kConvert(from[i]);
}

}  // namespace

AdamWConstants adamw_constants(const AdamWHyperparameters& h, std::int64_t step) {
  require_not_negative(h.lr, "lr");
  require_beta(h.beta1, "beta1");
  require_beta(h.beta2, "beta2");
  require_not_negative(h.eps, "eps");
  require_not_negative(h.weight_decay, "weight_decay");
  ZERO_REQUIRE(step >= 1, "AdamW counts applied steps from 1: " + std::to_string(step));
  return {
      .decay = static_cast<float>(1 - h.lr * h.weight_decay),
      .beta1 = static_cast<float>(h.beta1),
      .one_minus_beta1 = static_cast<float>(1 - h.beta1),
      .beta2 = static_cast<float>(h.beta2),
      .one_minus_beta2 = static_cast<float>(1 - h.beta2),
      .step_size = static_cast<float>(h.lr / (1 - power(h.beta1, step))),
      .sqrt_bias_correction2 = static_cast<float>(std::sqrt(1 - power(h.beta2, step))),
      .eps = static_cast<float>(h.eps),
  };
}

void adamw_step(const AdamWConstants& constants, const float* __restrict grad,
                float gradient_factor, float* __restrict master, float* __restrict exp_avg,
                float* __restrict exp_avg_sq, std::int64_t n) noexcept {
  const AdamWConstants c =
      constants;  // A copy, so that stores need not be taken for changes to it.
  for (std::int64_t i = 0; i < n; ++i) {
    const float g = grad[i] * gradient_factor;
    const float m = c.beta1 * exp_avg[i] + c.one_minus_beta1 * g;
    const float v = c.beta2 * exp_avg_sq[i] + c.one_minus_beta2 * g * g;
    const float denominator = std::sqrt(v) / c.sqrt_bias_correction2 + c.eps;
    exp_avg[i] = m;
    exp_avg_sq[i] = v;
    master[i] = master[i] * c.decay - c.step_size * m / denominator;
  }
}

void adamw_step(const AdamWConstants& constants, const float* grad, float gradient_factor,
                float* master, float* exp_avg, float* exp_avg_sq, std::int64_t n,
                void* low_precision, DType low_precision_dtype) {
  const bool is_bfloat16 = low_precision_dtype == DType::kBFloat16;
  ZERO_REQUIRE(
      is_bfloat16 || low_precision_dtype == DType::kFloat16,
      "The low-precision copy of a master must be bfloat16 or float16; a float32 parameter "
      "is its own master: " +
          std::string(name_of(low_precision_dtype)));
  auto* const copy = static_cast<std::uint16_t*>(low_precision);
  // Small enough that the masters are still in the first-level cache when they are converted.
  constexpr std::int64_t kChunk = 1024;
  for (std::int64_t i = 0; i < n; i += kChunk) {
    const std::int64_t count = std::min(kChunk, n - i);
    adamw_step(constants, grad + i, gradient_factor, master + i, exp_avg + i, exp_avg_sq + i,
               count);
    if (is_bfloat16) {
      convert<bfloat16_from_float>(master + i, copy + i, count);
    } else {
      convert<float16_from_float>(master + i, copy + i, count);
    }
  }
}

}  // namespace zero
