#pragma once

#include <ATen/TensorIterator.h>
#include <ATen/core/Tensor.h>

#include "libzero/kernels/adamw.h"

namespace zero {

/// clipped_step() on the threads that LibTorch calculates with (at::get_num_threads()); with one
/// thread it is clipped_step(). The bits do not depend on their number. Takes memory when it is
/// made and none afterwards. Not thread-safe: for the thread that trains.
class ThreadedStep {
 public:
  ThreadedStep();

  void operator()(const AdamWConstants& constants, const AdamWRun& run, float limit = 0);

 private:
  at::Tensor places_;  // one byte for each part of a run: its address says which
  at::TensorIterator parts_;
};

}  // namespace zero
