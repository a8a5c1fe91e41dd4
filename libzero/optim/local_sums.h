#pragma once

/// Gradients of 16-bit parameters that are added up on this rank before they are reduced.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "libzero/layout/layout.h"
#include "libzero/optim/aligned_array.h"

namespace zero {

/// One fp32 array of full size for each parameter that ever had a sum: memory once taken stays. Not
/// thread-safe.
class LocalSums {
 public:
  explicit LocalSums(std::size_t parameters) : sums_(parameters), held_(parameters, false) {}

  /// Adds a dense 16-bit tensor, of any device, in fp32, to the parameter's sum.
  void add(std::int32_t parameter, const at::Tensor& gradient);

  /// Null where nothing was added.
  const float* of(std::int32_t parameter) const;

  void forget(std::int32_t parameter) { held_[static_cast<std::size_t>(parameter)] = false; }

  std::int64_t bytes() const noexcept { return bytes_; }

 private:
  std::vector<AlignedArray<float>> sums_;  // by parameter
  std::vector<bool> held_;
  std::int64_t bytes_ = 0;
};

}  // namespace zero
