#pragma once

// clang-format off
/// AdamW over contiguous memory. Adam: Kingma & Ba 2015 (arXiv 1412.6980), algorithm 1; decoupled
/// weight decay: Loshchilov & Hutter 2019 (arXiv 1711.05101), algorithm 2. The order of operations
/// is that of torch's AdamW without amsgrad:
///
///   g = gradient * gradient_factor
///   p = p * (1 - lr * weight_decay)                 1711.05101, line 12, schedule times lr
///   m = beta1 * m + (1 - beta1) * g                 1412.6980, first moment
///   v = beta2 * v + ((1 - beta2) * g) * g           1412.6980, second moment
///   p = p - (step_size * m) / (sqrt(v) / sqrt(1 - beta2^t) + eps)      1412.6980, update
///
/// with step_size = lr / (1 - beta1^t), t the number of applied steps, this one included.
///
/// fp32 throughout; every product and sum is rounded on its own (no fused multiply-add), so that
/// every instruction set gives the same bits.
// clang-format on

#include <cstdint>

#include "libzero/base/dtype.h"

namespace zero {

struct AdamWHyperparameters {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
};

/// The scalars of one step, calculated in fp64 and rounded to fp32 once. They do not depend on the
/// C library's pow.
struct AdamWConstants {
  float decay = 1;  ///< 1 - lr * weight_decay
  float beta1 = 0;
  float one_minus_beta1 = 1;
  float beta2 = 0;
  float one_minus_beta2 = 1;
  float step_size = 0;              ///< lr / (1 - beta1^t)
  float sqrt_bias_correction2 = 1;  ///< sqrt(1 - beta2^t)
  float eps = 0;
};

/// `step` counts applied steps, 1 for the first. Throws ContractError, naming the value, for step <
/// 1, a beta outside [0, 1) or too near 1 for float32, or an lr, eps or weight_decay that is
/// negative or not finite.
AdamWConstants adamw_constants(const AdamWHyperparameters& hyperparameters, std::int64_t step);

/// A run of n elements in memory. No two of the arrays may overlap.
struct AdamWRun {
  const void* gradient = nullptr;
  DType gradient_dtype = DType::kFloat32;
  float gradient_factor = 1;
  float* master = nullptr;
  float* exp_avg = nullptr;
  float* exp_avg_sq = nullptr;
  void* low_precision = nullptr;  ///< Null, or receives the new master, rounded to nearest even.
  DType low_precision_dtype = DType::kBFloat16;
  std::int64_t n = 0;
};

/// One step: each of the streams is read once and written once. Elements do not influence each
/// other: cutting a run in pieces gives the same bits, and so does every instruction set (the best
/// one is chosen at run time). Throws ContractError before anything is written for a gradient that
/// is not of a floating type, and a low-precision copy that is neither bfloat16 nor float16.
/// Thread-safe over disjoint memory.
void adamw_step(const AdamWConstants& constants, const AdamWRun& run);

}  // namespace zero
