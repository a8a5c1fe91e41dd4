#pragma once

/// What libzero's CUDA kernels are asked for. No CUDA header: this side compiles everywhere, and
/// tests run the same bodies on the host. Every pointer is device memory, every launch is
/// asynchronous on its stream, and every function returns a cudaError_t (0: launched).

#include <cstdint>

#include "libzero/base/dtype.h"
#include "libzero/kernels/adamw.h"
#include "libzero/kernels/exact_digits.h"
#include "libzero/kernels/sgd.h"

namespace zero::cuda {

using Stream = void*;  ///< A cudaStream_t; null is the default stream.

/// out[i] = (accumulate ? out[i] : +0) + part_0[i] + part_1[i] + ... as sum_parts() does it, with
/// block_sum_of_squares() of each kNormBlock elements of out on the way.
struct OrderedSum {
  const void* parts = nullptr;  ///< Part r begins at element r * stride; `own_rank`'s is not read.
  std::int64_t stride = 0;
  const void* own = nullptr;
  std::int32_t own_rank = -1;  ///< -1: all parts lie in `parts`.
  std::int32_t ranks = 1;
  DType dtype = DType::kFloat32;
  std::int32_t accumulate = 0;
  float* out = nullptr;
  std::int64_t count = 0;
  double* block_squares = nullptr;  ///< May be null.
};

/// What all_reduce computes of parts that lie `stride` elements apart: ordered_reduce() with one
/// out, which may be one of the parts.
struct OrderedReduce {
  const void* parts = nullptr;
  std::int64_t stride = 0;
  std::int32_t ranks = 1;
  std::int32_t maximum = 0;  ///< Otherwise the sum.
  DType dtype = DType::kFloat32;
  void* out = nullptr;
  std::int64_t count = 0;
};

/// cast_elements().
struct Cast {
  const void* from = nullptr;
  DType from_dtype = DType::kFloat32;
  void* to = nullptr;
  DType to_dtype = DType::kFloat32;
  std::int64_t count = 0;
};

/// Lives in device memory from step to step, so that a step needs no word from the host.
struct StepState {
  double sum_of_squares = 0;   ///< Of the raw gradients of all ranks: the norm's, already exact.
  std::int64_t nonfinite = 0;  ///< Not 0: some rank saw infinity or NaN.
  std::int64_t weight_sum = 1;
  double loss_scale = 1;
  std::int64_t applied_steps = 0;  ///< prepare_step counts it up where it applies the step.
  // Written by prepare_step, read by adamw:
  double grad_norm = 0;
  double clip_factor = 1;
  float gradient_factor = 0;
  std::int32_t apply = 0;
};

/// decide(), then adamw_constants() for each group of parameters, by one thread.
struct PrepareStep {
  StepState* state = nullptr;
  double clip_norm = 0;  ///< 0: no clipping.
  const AdamWHyperparameters* groups = nullptr;
  AdamWConstants* constants = nullptr;  ///< One for each group.
  std::int32_t group_count = 0;
};

/// adamw_step() with everything that the step decided read from device memory. Writes nothing where
/// state->apply is 0.
struct AdamWStep {
  const StepState* state = nullptr;
  const AdamWConstants* constants = nullptr;  ///< Of this run's group.
  const void* gradient = nullptr;
  DType gradient_dtype = DType::kFloat32;
  float* master = nullptr;
  float* exp_avg = nullptr;
  float* exp_avg_sq = nullptr;
  void* low_precision = nullptr;  ///< Null, or bfloat16 or float16.
  DType low_precision_dtype = DType::kBFloat16;
  std::int64_t count = 0;
  /// Above 0: each gradient, factor included, is brought into [-value_limit, value_limit] first.
  float value_limit = 0;
};

/// sgd_step() in the same way.
struct SGDStep {
  const StepState* state = nullptr;
  const SGDConstants* constants = nullptr;
  const void* gradient = nullptr;
  DType gradient_dtype = DType::kFloat32;
  float* master = nullptr;
  float* momentum_buffer = nullptr;  ///< Null where none is kept.
  void* low_precision = nullptr;
  DType low_precision_dtype = DType::kBFloat16;
  std::int64_t count = 0;
  float value_limit = 0;
};

/// ema_step(). Writes nothing where state->apply is 0.
struct Average {
  const StepState* state = nullptr;
  float weight = 0;
  const float* values = nullptr;
  float* average = nullptr;
  std::int64_t count = 0;
};

/// Adds sums of squares to the digits of an ExactSum (libzero/optim/exact_sum.h), carries undone:
/// for at most 2^30 terms. The word behind them counts the terms that are infinite or NaN.
struct SumExactly {
  const double* values = nullptr;
  std::int64_t count = 0;
  std::int64_t* words = nullptr;  ///< kExactWords + 1
};

struct KernelApi {
  /// Brings all kernels onto this thread's present device. CUDA does it at a kernel's first launch
  /// otherwise, and may wait for the whole device then: for a collective that waits for others.
  int (*load)() = nullptr;
  int (*ordered_sum)(const OrderedSum* args, Stream stream) = nullptr;
  int (*ordered_reduce)(const OrderedReduce* args, Stream stream) = nullptr;
  int (*cast)(const Cast* args, Stream stream) = nullptr;
  int (*prepare_step)(const PrepareStep* args, Stream stream) = nullptr;
  int (*adamw)(const AdamWStep* args, Stream stream) = nullptr;
  int (*sgd)(const SGDStep* args, Stream stream) = nullptr;
  int (*average)(const Average* args, Stream stream) = nullptr;
  int (*sum_exactly)(const SumExactly* args, Stream stream) = nullptr;
};

/// Exported by the library of kernels as "zero_cuda_kernels": fills the table and returns its own
/// version, which must be kKernelsVersion, or nothing in the table may be called.
using KernelsFn = std::int32_t (*)(KernelApi* api);
inline constexpr std::int32_t kKernelsVersion = 2;
inline constexpr const char* kKernelsSymbol = "zero_cuda_kernels";

}  // namespace zero::cuda
