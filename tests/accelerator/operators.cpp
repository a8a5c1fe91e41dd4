// What LibTorch needs of a device: memory, views, copies. All else runs on the CPU's kernels.

#include <ATen/EmptyTensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include "tests/accelerator/device.h"
#include "tests/accelerator/memory.h"

namespace zero::accelerator_test {
namespace {

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

c10::Device chosen(std::optional<at::Device> device) {
  if (device && device->has_index()) return *device;
  return c10::impl::getDeviceGuardImpl(c10::DeviceType::PrivateUse1)->getDevice();
}

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype,
                 std::optional<at::Layout>, std::optional<at::Device> device, std::optional<bool>,
                 std::optional<at::MemoryFormat> format) {
  const c10::DeviceGuard here(chosen(device));
  return at::detail::empty_generic(size, c10::GetAllocator(c10::DeviceType::PrivateUse1), kKeys,
                                   c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                         std::optional<at::Device> device, std::optional<bool>) {
  const c10::DeviceGuard here(chosen(device));
  return at::detail::empty_strided_generic(size, stride,
                                           c10::GetAllocator(c10::DeviceType::PrivateUse1), kKeys,
                                           c10::dtype_or_default(dtype));
}

/// The same elements as a tensor of the host's. Does not keep them alive.
at::Tensor behind_of(const at::Tensor& tensor) {
  const auto options = at::TensorOptions().dtype(tensor.scalar_type());
  return at::from_blob(behind(tensor.data_ptr()), tensor.sizes(), tensor.strides(), options);
}

/// As on a GPU: pinned memory is read and written when the copy's turn comes, and kept alive until
/// then; other memory of the host is read at once, and waited for where it is written.
at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  if (to.numel() == 0) return to;
  const c10::Device device = from.is_cpu() ? to.device() : from.device();
  const at::Tensor host = from.is_cpu() ? from : to.is_cpu() ? to : at::Tensor();
  const bool is_free = host.defined() && non_blocking && is_pinned(host.data_ptr());
  const at::Tensor source = from.is_cpu() && !is_free ? from.detach().clone() : behind_of(from);
  on_present_stream(device, [source = source.expand(to.sizes()), target = behind_of(to), host] {
    const at::NoGradGuard no_grad;
    target.copy_(source);
  });
  if (to.is_cpu() && !is_free) wait_for_present_stream(device);
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  if (from.sizes() != to.sizes()) to.resize_(from.sizes());
  return copy_from(from, to, false);
}

at::Tensor& zero(at::Tensor& self) {
  if (self.numel() == 0) return self;
  on_present_stream(self.device(), [target = behind_of(self)] {
    const at::NoGradGuard no_grad;
    target.zero_();
  });
  return self;
}

at::Scalar local_scalar(const at::Tensor& self) {
  return at::_local_scalar_dense(self.to(at::kCPU));
}

at::Tensor view(const at::Tensor& self, at::IntArrayRef size) {
  return at::native::view(self, size);
}

at::Tensor as_strided(const at::Tensor& self, at::IntArrayRef size, at::IntArrayRef stride,
                      std::optional<std::int64_t> offset) {
  return at::native::as_strided_tensorimpl(self, size, stride, offset);
}

at::Tensor reshape_alias(const at::Tensor& self, at::IntArrayRef size, at::IntArrayRef stride) {
  return at::native::_reshape_alias(self, size, stride);
}

void on_the_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  at::native::cpu_fallback(op, stack);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  m.impl("_copy_from", &copy_from);
  m.impl("_copy_from_and_resize", &copy_from_and_resize);
  m.impl("_local_scalar_dense", &local_scalar);
  m.impl("zero_", &zero);
  m.impl("view", &view);
  m.impl("as_strided", &as_strided);
  m.impl("_reshape_alias", &reshape_alias);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&on_the_cpu>());
}

}  // namespace
}  // namespace zero::accelerator_test
