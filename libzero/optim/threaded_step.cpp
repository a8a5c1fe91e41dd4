#include "libzero/optim/threaded_step.h"

#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstddef>

#include "libzero/collective/collective.h"

namespace zero {
namespace {

constexpr std::int64_t kParts = 64;
/// A shorter run is over before a second thread is awake.
constexpr std::int64_t kLeastElements = 128 << 10;

std::byte* at_element(const void* base, std::int64_t element, DType dtype) {
  return static_cast<std::byte*>(const_cast<void*>(base)) + element * size_of(dtype);
}

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

/// Where part `index` begins: parts are whole blocks.
std::int64_t begin_of(std::int64_t index, std::int64_t n) {
  const std::int64_t blocks = (n + kEpilogueBlock - 1) / kEpilogueBlock;
  return std::min(n, blocks * index / kParts * kEpilogueBlock);
}

}  // namespace

ThreadedStep::ThreadedStep()
    : places_(at::zeros({kParts}, at::kByte)), parts_(at::TensorIterator::nullary_op(places_)) {}

void ThreadedStep::operator()(const AdamWConstants& constants, const AdamWRun& run) {
  if (run.n < kLeastElements || at::get_num_threads() == 1) return adamw_step(constants, run);
  // at::parallel_for() would be compiled here and needs an OpenMP of this library's own; the
  // iterator's is LibTorch's.
  const char* const first = static_cast<const char*>(places_.const_data_ptr());
  const auto step_parts = [&](char** place, const std::int64_t*, std::int64_t count) {
    const std::int64_t index = *place - first;
    const std::int64_t begin = begin_of(index, run.n), end = begin_of(index + count, run.n);
    if (begin < end) adamw_step(constants, elements_of(run, begin, end));
  };
  parts_.for_each(step_parts, /*grain_size=*/1);
}

}  // namespace zero
