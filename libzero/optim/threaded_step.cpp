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

/// Where part `index` begins: parts are whole blocks.
std::int64_t begin_of(std::int64_t index, std::int64_t n) {
  const std::int64_t blocks = (n + kEpilogueBlock - 1) / kEpilogueBlock;
  return std::min(n, blocks * index / kParts * kEpilogueBlock);
}

}  // namespace

ThreadedStep::ThreadedStep()
    : places_(at::zeros({kParts}, at::kByte)), parts_(at::TensorIterator::nullary_op(places_)) {}

void ThreadedStep::operator()(std::int64_t n, Step step) {
  if (n == 0) return;
  if (n < kLeastElements || at::get_num_threads() == 1) return step(0, n);
  // at::parallel_for() would be compiled here and needs an OpenMP of this library's own; the
  // iterator's is LibTorch's.
  const char* const first = static_cast<const char*>(places_.const_data_ptr());
  const auto step_parts = [&](char** place, const std::int64_t* strides, std::int64_t count,
                              std::int64_t rows) {
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t index = *place + row * strides[1] - first;
      const std::int64_t begin = begin_of(index, n), end = begin_of(index + count, n);
      if (begin < end) step(begin, end);
    }
  };
  parts_.for_each(step_parts, /*grain_size=*/1);
}

}  // namespace zero
