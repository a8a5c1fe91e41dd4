#pragma once

/// Runs of a tensor's elements in row-major logical order, whatever its strides, and wherever it
/// lies: from and to another device than the host's they are copied, as a part of the whole where
/// the tensor is not contiguous, so that this is for what is read or written rarely.

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>

#include "libzero/optim/aligned_array.h"

namespace zero {

/// Copies elements [begin, begin + count) into dst, in the tensor's dtype.
void read_elements(const at::Tensor& tensor, std::int64_t begin, std::int64_t count, void* dst);

/// Overwrites elements [begin, begin + count) from src, in the tensor's dtype. Autograd does not
/// see it.
void write_elements(at::Tensor& tensor, std::int64_t begin, std::int64_t count, const void* src);

/// The address of element `index`, or nullptr if the tensor is not contiguous or not in host
/// memory.
void* contiguous_element(const at::Tensor& tensor, std::int64_t index);

/// Overwrites every element with zero.
void zero_elements(const at::Tensor& tensor);

/// A tensor's elements as one writable run: in place where it is contiguous, otherwise a copy that
/// finish() writes back.
class WritableRun {
 public:
  WritableRun(at::Tensor& tensor, std::int64_t begin, std::int64_t count);
  WritableRun(const WritableRun&) = delete;
  WritableRun& operator=(const WritableRun&) = delete;

  void* data() const noexcept { return data_; }
  void finish();

 private:
  at::Tensor& tensor_;
  std::int64_t begin_;
  std::int64_t count_;
  AlignedArray<std::byte> copy_;
  void* data_;
};

}  // namespace zero
