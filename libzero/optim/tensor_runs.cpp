#include "libzero/optim/tensor_runs.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>

#include <cstring>

namespace zero {
namespace {

std::size_t byte_count(const at::Tensor& tensor, std::int64_t count) {
  return static_cast<std::size_t>(count) * tensor.element_size();
}

}  // namespace

void* contiguous_element(const at::Tensor& tensor, std::int64_t index) {
  if (!tensor.is_contiguous() || !tensor.is_cpu()) return nullptr;
  return static_cast<char*>(tensor.data_ptr()) + byte_count(tensor, index);
}

void read_elements(const at::Tensor& tensor, std::int64_t begin, std::int64_t count, void* dst) {
  if (const void* data = contiguous_element(tensor, begin)) {
    std::memcpy(dst, data, byte_count(tensor, count));
    return;
  }
  const at::NoGradGuard no_grad;
  if (tensor.is_contiguous()) {  // on a device: only what is wanted comes down
    at::from_blob(dst, {count}, tensor.options().device(at::kCPU).requires_grad(false))
        .copy_(tensor.detach().view({-1}).narrow(0, begin, count));
    return;
  }
  const at::Tensor source = tensor.to(at::kCPU).contiguous();
  std::memcpy(dst, contiguous_element(source, begin), byte_count(source, count));
}

void write_elements(at::Tensor& tensor, std::int64_t begin, std::int64_t count, const void* src) {
  if (void* target = contiguous_element(tensor, begin)) {
    std::memcpy(target, src, byte_count(tensor, count));
    return;
  }
  const at::NoGradGuard no_grad;
  if (tensor.is_contiguous()) {
    const at::Tensor values = at::from_blob(const_cast<void*>(src), {count},
                                            tensor.options().device(at::kCPU).requires_grad(false));
    tensor.detach().view({-1}).narrow(0, begin, count).copy_(values);
    return;
  }
  const at::Tensor whole = tensor.detach().to(at::kCPU).clone(at::MemoryFormat::Contiguous);
  std::memcpy(contiguous_element(whole, begin), src, byte_count(whole, count));
  tensor.detach().copy_(whole);
}

void zero_elements(const at::Tensor& tensor) {
  if (void* data = contiguous_element(tensor, 0)) {
    std::memset(data, 0, tensor.nbytes());
    return;
  }
  const at::NoGradGuard no_grad;
  tensor.zero_();
}

WritableRun::WritableRun(at::Tensor& tensor, std::int64_t begin, std::int64_t count)
    : tensor_(tensor), begin_(begin), count_(count), data_(contiguous_element(tensor, begin)) {
  if (data_ != nullptr) return;
  copy_ = AlignedArray<std::byte>(count * static_cast<std::int64_t>(tensor.element_size()));
  read_elements(tensor, begin, count, copy_.data());
  data_ = copy_.data();
}

void WritableRun::finish() {
  if (copy_.size() > 0) write_elements(tensor_, begin_, count_, data_);
}

}  // namespace zero
