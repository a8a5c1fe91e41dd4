#include "libzero/optim/clipped_step.h"

#include <algorithm>
#include <cstddef>

namespace zero {
namespace {

/// Elements bounded at once: they stay in the first cache.
constexpr std::int64_t kClipped = 2048;

std::byte* at_element(const void* base, std::int64_t element, DType dtype) {
  return static_cast<std::byte*>(const_cast<void*>(base)) + element * size_of(dtype);
}

}  // namespace

AdamWRun elements_of(const AdamWRun& run, std::int64_t begin, std::int64_t end) {
  AdamWRun part = run;
  part.gradient = at_element(run.gradient, begin, run.gradient_dtype);
  part.master += begin;
  part.exp_avg += begin;
  part.exp_avg_sq += begin;
  if (run.low_precision != nullptr)
    part.low_precision = at_element(run.low_precision, begin, run.low_precision_dtype);
  part.n = end - begin;
  return part;
}

void clip_elements(const float* gradient, float factor, float limit, std::int64_t count,
                   float* to) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float value = gradient[i] * factor;
    to[i] = value > limit ? limit : value < -limit ? -limit : value;
  }
}

void clipped_step(const AdamWConstants& constants, const AdamWRun& run, float limit) {
  if (limit == 0) return adamw_step(constants, run);
  alignas(64) float clipped[kClipped];
  for (std::int64_t at = 0; at < run.n; at += kClipped) {
    AdamWRun part = elements_of(run, at, std::min(run.n, at + kClipped));
    clip_elements(static_cast<const float*>(part.gradient), run.gradient_factor, limit, part.n,
                  clipped);
    part.gradient = clipped;
    part.gradient_factor = 1;
    adamw_step(constants, part);
  }
}

}  // namespace zero
