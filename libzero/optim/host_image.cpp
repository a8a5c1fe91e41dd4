#include "libzero/optim/host_image.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace zero {
namespace {

c10::Stream stream_of_its_own(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
}

at::Tensor image_of(const at::Tensor& tensor) {
  const auto options = at::TensorOptions().dtype(tensor.scalar_type()).pinned_memory(true);
  return at::empty(tensor.sizes(), options);
}

}  // namespace

HostImage::HostImage(ParameterTable& table, const Layout& layout)
    : images_(table),
      layout_(layout),
      model_(table),
      seen_(table.specs.size()),
      up_(stream_of_its_own(table.device)),
      begun_(table.device.type()),
      done_(table.device.type()) {
  for (std::size_t p = 0; p < model_.specs.size(); ++p) {
    const ParameterSpec& spec = model_.specs[p];
    if (!spec.trainable) continue;
    if (spec.alias_of >= 0) {
      images_.tensors[p] = images_.tensors[static_cast<std::size_t>(spec.alias_of)];
      continue;
    }
    images_.tensors[p] = image_of(model_.tensors[p]);
    bytes_ += static_cast<std::int64_t>(images_.tensors[p].nbytes());
  }
}

HostImage::~HostImage() {
  try {
    // It reads the images and writes to the model; done_ may be of before, if the last update
    // failed.
    c10::impl::VirtualGuardImpl(up_.device_type()).synchronizeStream(up_);
  } catch (...) {  // a device that has failed does neither any more
  }
}

bool HostImage::has_image(std::size_t parameter) const {
  const ParameterSpec& spec = model_.specs[parameter];
  return spec.trainable && spec.alias_of < 0;
}

c10::Stream HostImage::present_stream() const {
  return c10::impl::VirtualGuardImpl(model_.device.type()).getStream(model_.device);
}

HostImage::Seen HostImage::state_of(std::size_t parameter) const {
  const at::Tensor& tensor = model_.tensors[parameter];
  return {static_cast<std::int64_t>(tensor._version()), tensor.const_data_ptr()};
}

void HostImage::remember() {
  for (std::size_t p = 0; p < seen_.size(); ++p) {
    if (has_image(p)) seen_[p] = state_of(p);
  }
}

void HostImage::download(std::size_t parameter) {
  const at::NoGradGuard no_grad;
  images_.tensors[parameter].copy_(model_.tensors[parameter].detach());
  seen_[parameter] = state_of(parameter);
}

void HostImage::download() {
  if (done_.was_marked_for_recording()) done_.synchronize();
  for (std::size_t p = 0; p < seen_.size(); ++p) {
    if (has_image(p)) download(p);
  }
}

void HostImage::download_changed() {
  for (std::size_t p = 0; p < seen_.size(); ++p) {
    if (!has_image(p)) continue;
    const Seen now = state_of(p);
    if (now.version != seen_[p].version || now.data != seen_[p].data) download(p);
  }
}

void HostImage::begin_update() {
  if (done_.was_marked_for_recording()) done_.synchronize();
  begun_.record(present_stream());
  begun_.block(up_);
}

void HostImage::upload(std::int32_t bucket) {
  const at::NoGradGuard no_grad;
  const c10::StreamGuard on_up(up_);
  for (const std::int32_t p : layout_.buckets()[static_cast<std::size_t>(bucket)].parameters) {
    const auto index = static_cast<std::size_t>(p);
    // Without counting as a change of the model: who makes one says so.
    model_.tensors[index].variable_data().copy_(images_.tensors[index], /*non_blocking=*/true);
  }
  done_.record(up_);
}

void HostImage::finish_update() {
  if (done_.was_marked_for_recording()) done_.block(present_stream());
}

void HostImage::upload_all() {
  begin_update();
  for (std::size_t b = 0; b < layout_.buckets().size(); ++b) upload(static_cast<std::int32_t>(b));
  finish_update();
  remember();
}

}  // namespace zero
