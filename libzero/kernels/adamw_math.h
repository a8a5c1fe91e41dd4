#pragma once

/// AdamW's arithmetic for one element and for one step, shared by hosts and GPUs: the formulas of
/// adamw.h, each operation rounded on its own. Compile with contraction to FMA off.

#include <cmath>
#include <cstdint>

#include "libzero/kernels/adamw.h"
#include "libzero/kernels/host_device.h"

namespace zero {

/// base^exponent by squaring: std::pow differs between C libraries and, inside one, between CPUs
/// with and without FMA.
ZERO_HOST_DEVICE inline double power(double base, std::int64_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result *= base;
    base *= base;
  }
  return result;
}

/// adamw_constants() without its checks.
ZERO_HOST_DEVICE inline AdamWConstants unchecked_adamw_constants(const AdamWHyperparameters& h,
                                                                 std::int64_t step) {
  AdamWConstants c;
  c.decay = static_cast<float>(1 - h.lr * h.weight_decay);
  c.beta1 = static_cast<float>(h.beta1);
  c.one_minus_beta1 = static_cast<float>(1 - h.beta1);
  c.beta2 = static_cast<float>(h.beta2);
  c.one_minus_beta2 = static_cast<float>(1 - h.beta2);
  c.step_size = static_cast<float>(h.lr / (1 - power(h.beta1, step)));
  c.sqrt_bias_correction2 = static_cast<float>(std::sqrt(1 - power(h.beta2, step)));
  c.eps = static_cast<float>(h.eps);
  return c;
}

struct AdamWElement {
  float p, m, v;
};

/// `raw`: the gradient, widened, before gradient_factor.
ZERO_HOST_DEVICE inline AdamWElement adamw_element(const AdamWConstants& c, float gradient_factor,
                                                   float raw, AdamWElement old) {
  const float g = raw * gradient_factor;
  AdamWElement next;
  next.m = c.beta1 * old.m + c.one_minus_beta1 * g;
  next.v = c.beta2 * old.v + (c.one_minus_beta2 * g) * g;
  const float denominator = std::sqrt(next.v) / c.sqrt_bias_correction2 + c.eps;
  next.p = old.p * c.decay - (c.step_size * next.m) / denominator;
  return next;
}

}  // namespace zero
