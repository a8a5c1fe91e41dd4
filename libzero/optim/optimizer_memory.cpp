#include "libzero/optim/optimizer_impl.h"

namespace zero {
namespace {

std::int64_t bytes_of(const at::Tensor& tensor) {
  return static_cast<std::int64_t>(tensor.nbytes());
}

}  // namespace

void Optimizer::Impl::add_device(MemoryReport& report) const {
  report.on_device = report.parameters + report.gradients + report.frozen;
  for (const NamedTensor& buffer : buffers_) {
    if (!buffer.tensor.is_cpu()) report.on_device += bytes_of(buffer.tensor);
  }
  if (image_) {
    report.host_image = image_->bytes();
    report.landing = reducer_ ? reducer_->landing_bytes() : 0;
    return;
  }
  home_->state.add_to(report);
  report.staging = bytes_of(home_->staging);
  report.on_device += home_->state.bytes() + report.staging;
  report.landing = home_->payload->host_bytes();
}

MemoryReport Optimizer::Impl::memory() const {
  MemoryReport report = memory_at_rest();
  add_what_grows(report);
  return report;
}

MemoryReport Optimizer::Impl::memory_in_step() {
  if (!memory_at_rest_) memory_at_rest_ = memory_at_rest();
  MemoryReport report = *memory_at_rest_;
  add_what_grows(report);
  return report;
}

void Optimizer::Impl::add_what_grows(MemoryReport& report) const {
  report.offload_ring = offload_ ? offload_->memory_bytes() : 0;
  report.offloaded = offload_ ? offload_->file_bytes() : 0;
  report.local_sums = reducer_ ? reducer_->local_bytes() : 0;
}

MemoryReport Optimizer::Impl::memory_at_rest() const {
  MemoryReport report;
  for (std::size_t i = 0; i < table_.specs.size(); ++i) {
    const ParameterSpec& spec = table_.specs[i];
    if (spec.alias_of >= 0) continue;
    const at::Tensor& tensor = model().tensors[i];
    (spec.trainable ? report.parameters : report.frozen) += bytes_of(tensor);
    if (options_.stage() < 2 && spec.trainable) report.gradients += bytes_of(tensor);
  }
  for (const NamedTensor& buffer : buffers_) report.buffers += bytes_of(buffer.tensor);
  add_to_report(states_, report);
  report.staging = staging_.bytes();
  if (!model().device.is_cpu()) add_device(report);
  return report;
}

}  // namespace zero
