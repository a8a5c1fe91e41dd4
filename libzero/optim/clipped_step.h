#pragma once

/// A step of gradients whose every element is bounded.

#include <cstdint>

#include "libzero/kernels/adamw.h"

namespace zero {

/// adamw_step() of the gradient times its factor, each element brought into [-limit, limit]; limit
/// 0: without. A bounded gradient passes through a piece of the cache: the kernel stays as it is,
/// and elements do not influence each other. REQUIRES a float32 gradient where there is a limit.
void clipped_step(const AdamWConstants& constants, const AdamWRun& run, float limit);

/// Elements [begin, end).
AdamWRun elements_of(const AdamWRun& run, std::int64_t begin, std::int64_t end);

/// to[i] = gradient[i] * factor, rounded to float32, in [-limit, limit]; NaN stays.
void clip_elements(const float* gradient, float factor, float limit, std::int64_t count, float* to);

}  // namespace zero
