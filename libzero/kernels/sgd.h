#pragma once

// clang-format off
/// Stochastic gradient descent with momentum over contiguous memory. Momentum and Nesterov's variant:
/// Sutskever et al. 2013 (proceedings.mlr.press/v28/sutskever13), equations 1 to 4, in the form of
/// torch.optim.SGD, whose buffer does not contain lr; decoupled weight decay: Loshchilov & Hutter 2019
/// (arXiv 1711.05101), algorithm 1. The order of operations is that of torch's SGD without dampening:
///
///   g = gradient * gradient_factor
///   p = p * (1 - lr * weight_decay)                 1711.05101, line 9, schedule times lr
///   b = momentum * b + g                            the buffer; without momentum there is none, b = g
///   d = nesterov ? g + momentum * b : b
///   p = p - lr * d
///
/// fp32 throughout; every product and sum is rounded on its own (no fused multiply-add), so that
/// every instruction set gives the same bits.
// clang-format on

#include <cstdint>

#include "libzero/base/dtype.h"

namespace zero {

struct SGDHyperparameters {
  double lr = 1e-3;
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;
};

/// The scalars of one step, calculated in fp64 and rounded to fp32 once.
struct SGDConstants {
  float decay = 1;  ///< 1 - lr * weight_decay
  float momentum = 0;
  float lr = 0;
  bool nesterov = false;
};

/// Throws ContractError, naming the value, for a momentum outside [0, 1) or too near 1 for float32,
/// an lr or weight_decay that is negative or not finite, and nesterov without momentum.
SGDConstants sgd_constants(const SGDHyperparameters& hyperparameters);

/// A run of n elements in memory. No two of the arrays may overlap.
struct SGDRun {
  const void* gradient = nullptr;
  DType gradient_dtype = DType::kFloat32;
  float gradient_factor = 1;
  float* master = nullptr;
  float* momentum_buffer = nullptr;  ///< Null, where momentum is 0: nothing is kept.
  void* low_precision = nullptr;     ///< Null, or receives the new master, rounded to nearest even.
  DType low_precision_dtype = DType::kBFloat16;
  std::int64_t n = 0;
};

/// One step, as adamw_step() makes it: one pass, the same bits however a run is cut and on every
/// instruction set. Throws ContractError before anything is written for a gradient that is not of a
/// floating type, a low-precision copy that is neither bfloat16 nor float16, and momentum without
/// buffer. Thread-safe over disjoint memory.
void sgd_step(const SGDConstants& constants, const SGDRun& run);

}  // namespace zero
