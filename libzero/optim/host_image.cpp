#include "libzero/optim/host_image.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <map>

#include "libzero/base/error.h"
#include "libzero/optim/device_wait.h"
#include "libzero/optim/pinned_memory.h"

namespace zero {
namespace {

c10::Stream stream_of_its_own(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
}

}  // namespace

HostImage::HostImage(ParameterTable& table, const Layout& layout,
                     std::chrono::milliseconds patience, const HostImage* before)
    : images_(table),
      layout_(layout),
      patience_(patience),
      model_(table),
      seen_(table.specs.size()),
      up_(stream_of_its_own(table.device)),
      begun_(table.device.type()),
      done_(table.device.type()),
      down_(table.device.type()) {
  if (before != nullptr) share(*before);
  for (std::size_t p = 0; p < model_.specs.size(); ++p) {
    const ParameterSpec& spec = model_.specs[p];
    if (!spec.trainable) continue;
    if (spec.alias_of >= 0) {
      images_.tensors[p] = images_.tensors[static_cast<std::size_t>(spec.alias_of)];
      continue;
    }
    if (images_.tensors[p].is_same(model_.tensors[p])) {
      images_.tensors[p] = pinned_tensor(model_.tensors[p].sizes(), model_.tensors[p].scalar_type(),
                                         "the image of parameter " + spec.name);
    }
    bytes_ += static_cast<std::int64_t>(images_.tensors[p].nbytes());
  }
}

/// It reads the images and writes to the model; done_ may be of before, if the last update failed.
HostImage::~HostImage() {
  const std::chrono::milliseconds patience = hangs_ ? std::chrono::milliseconds(0) : patience_;
  if (comes_to_rest(up_, patience) && (!downloads_ || comes_to_rest(*downloads_, patience))) return;
  keep_for_good(images_.tensors);
}

void HostImage::share(const HostImage& before) {
  std::map<const c10::TensorImpl*, std::size_t> rows;  // looked up only, never iterated
  for (std::size_t q = 0; q < before.seen_.size(); ++q) {
    if (before.has_image(q)) rows.emplace(before.model_.tensors[q].unsafeGetTensorImpl(), q);
  }
  for (std::size_t p = 0; p < seen_.size(); ++p) {
    const at::Tensor& tensor = model_.tensors[p];
    const auto row = rows.find(tensor.unsafeGetTensorImpl());
    if (!has_image(p) || row == rows.end()) continue;
    const at::Tensor& image = before.images_.tensors[row->second];
    if (image.sizes() != tensor.sizes() || image.scalar_type() != tensor.scalar_type()) continue;
    images_.tensors[p] = image;
    seen_[p] = before.seen_[row->second];
  }
}

void HostImage::wait(const c10::Event& event, std::string_view what) {
  try {
    wait_for(event, patience_, what);
  } catch (const CommError&) {
    hangs_ = true;
    throw;
  }
}

bool HostImage::has_image(std::size_t parameter) const {
  const ParameterSpec& spec = model_.specs[parameter];
  return spec.trainable && spec.alias_of < 0;
}

bool HostImage::fits(std::size_t parameter) const {
  const at::Tensor& tensor = model_.tensors[parameter];
  return tensor.sizes() == images_.tensors[parameter].sizes() && tensor.device() == model_.device;
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

void HostImage::start_download(std::size_t parameter) {
  const at::NoGradGuard no_grad;
  downloads_ = present_stream();
  images_.tensors[parameter].copy_(model_.tensors[parameter].detach(), /*non_blocking=*/true);
  seen_[parameter] = state_of(parameter);
}

void HostImage::finish_downloads() {
  if (!downloads_) return;
  down_.record(*downloads_);
  wait(down_, "parameters to reach the host");
  downloads_.reset();
}

void HostImage::download() {
  wait(done_, "parameters of the last update to reach it");
  finish_downloads();
  for (std::size_t p = 0; p < seen_.size(); ++p) {
    if (has_image(p)) start_download(p);
  }
  finish_downloads();
}

void HostImage::download_changed() {
  finish_downloads();
  for (std::size_t p = 0; p < seen_.size(); ++p) {
    if (!has_image(p) || !fits(p)) continue;
    const Seen now = state_of(p);
    if (now.version == seen_[p].version && now.data == seen_[p].data) continue;
    start_download(p);
  }
  finish_downloads();
}

void HostImage::begin_update() {
  wait(done_, "parameters of the last update to reach it");
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
