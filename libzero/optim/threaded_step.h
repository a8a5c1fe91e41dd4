#pragma once

#include <ATen/TensorIterator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "libzero/base/function_ref.h"

namespace zero {

/// Work on a run of elements, on the threads that LibTorch calculates with (at::get_num_threads()):
/// in parts, which may run at the same time, or in one where that is not worth it. Takes memory
/// when it is made and none afterwards. Not thread-safe: for the thread that trains.
class ThreadedStep {
 public:
  ThreadedStep();

  /// Calls `step` for elements [begin, end), disjoint and all of [0, n) together; none for n = 0.
  using Step = FunctionRef<void(std::int64_t begin, std::int64_t end)>;
  void operator()(std::int64_t n, Step step);

 private:
  at::Tensor places_;  // one byte for each part of a run: its address says which
  at::TensorIterator parts_;
};

}  // namespace zero
