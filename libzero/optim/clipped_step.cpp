#include "libzero/optim/clipped_step.h"

#include <algorithm>

namespace zero {
namespace {

/// Elements bounded at once: they stay in the first cache.
constexpr std::int64_t kClipped = 2048;

/// NaN stays.
void clip_elements(const float* gradient, float factor, float limit, std::int64_t count,
                   float* to) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float value = gradient[i] * factor;
    to[i] = value > limit ? limit : value < -limit ? -limit : value;
  }
}

}  // namespace

void in_clipped_runs(const UpdateRun& run, float limit,
                     FunctionRef<void(const UpdateRun& part, std::int64_t at)> use) {
  alignas(64) float clipped[kClipped];
  for (std::int64_t at = 0; at < run.n; at += kClipped) {
    UpdateRun part = run.part(at, std::min(run.n, at + kClipped));
    clip_elements(part.gradient, run.gradient_factor, limit, part.n, clipped);
    part.gradient = clipped;
    part.gradient_factor = 1;
    use(part, at);
  }
}

}  // namespace zero
