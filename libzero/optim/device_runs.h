#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace zero {

/// A run of a tensor's elements in row-major logical order, where the tensor lies: in place where
/// it is contiguous, otherwise in a copy of the whole that finish() writes back. All on the present
/// stream; under NoGradGuard. Autograd does not see it.
class DeviceRun {
 public:
  DeviceRun(const at::Tensor& tensor, std::int64_t begin, std::int64_t count)
      : tensor_(tensor.detach()),
        dense_(tensor_.contiguous()),
        elements_(dense_.view({-1}).narrow(0, begin, count)) {}

  /// 1-D.
  const at::Tensor& elements() const noexcept { return elements_; }
  void* data() const { return elements_.data_ptr(); }
  void finish() {
    if (!dense_.is_alias_of(tensor_)) tensor_.variable_data().copy_(dense_);
  }

 private:
  const at::Tensor tensor_;
  const at::Tensor dense_;
  const at::Tensor elements_;
};

}  // namespace zero
