#pragma once

/// The memory that the kernels walk over: larger than any cache, laid out as the optimizer's.

#include <cstdint>
#include <functional>
#include <memory>

#include "libzero/base/arena.h"
#include "libzero/kernels/adamw.h"

namespace zero::benchmark {

class Streams {
 public:
  explicit Streams(std::int64_t n);

  std::int64_t n() const noexcept { return n_; }
  float* gradient() noexcept { return gradient_.data(); }
  float* other_gradient() noexcept { return other_gradient_.data(); }
  float* master() noexcept { return master_.data(); }
  float* exp_avg() noexcept { return exp_avg_.data(); }
  float* exp_avg_sq() noexcept { return exp_avg_sq_.data(); }
  std::uint16_t* half_gradient() noexcept { return half_gradient_.data(); }
  std::uint16_t* low_precision() noexcept { return low_precision_.data(); }

  /// All n elements.
  AdamWRun run(DType gradient_dtype, bool low_precision);

 private:
  std::int64_t n_;
  std::shared_ptr<Arena> arena_;
  ArenaArray<float> gradient_, master_, exp_avg_, exp_avg_sq_, other_gradient_;
  ArenaArray<std::uint16_t> half_gradient_, low_precision_;
};

/// Calls `kernel` for equal parts of `run`, the first on this thread and each other on one of its
/// own.
void on_threads(int threads, const AdamWRun& run,
                const std::function<void(const AdamWRun&)>& kernel);

}  // namespace zero::benchmark
