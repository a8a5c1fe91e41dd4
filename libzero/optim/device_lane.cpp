#include "libzero/optim/device_lane.h"

#include <ATen/ops/empty.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <string>

#include "libzero/base/error.h"
#include "libzero/collective/plugin_search.h"
#include "libzero/kernels/cuda/library.h"
#include "libzero/optim/device_wait.h"
#include "libzero/optim/parameter_table.h"

namespace zero {

DeviceLane::DeviceLane(c10::Device device, std::shared_ptr<const cuda::KernelApi> kernels,
                       std::chrono::milliseconds limit)
    : kernels_(std::move(kernels)),
      limit_(limit),
      stream_(c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device)),
      native_(stream_.native_handle()),
      given_(device.type()),
      done_(device.type()) {
  const c10::StreamGuard here(stream_);
  check(kernels_->load(), "all, to be loaded");
}

c10::Stream DeviceLane::present_stream() const {
  return c10::impl::VirtualGuardImpl(device().type()).getStream(device());
}

void DeviceLane::check(int error, std::string_view kernel) const {
  if (error == 0) return;
  throw Error(
      "a kernel could not be started on the GPU; the device has failed, or the kernels were "
      "built for another one: " +
      std::string(kernel) + " on " + device().str() + ", error " + std::to_string(error));
}

void DeviceLane::cast(const at::Tensor& from, const at::Tensor& to) const {
  cuda::Cast args;
  args.from = from.const_data_ptr();
  args.from_dtype = *known_dtype(from.scalar_type());
  args.to = to.data_ptr();
  args.to_dtype = *known_dtype(to.scalar_type());
  args.count = from.numel();
  check(kernels().cast(&args, native()), "cast");
}

void DeviceLane::follow_present() {
  given_.record(present_stream());
  given_.block(stream_);
}

void DeviceLane::lead_present() {
  done_.record(stream_);
  done_.block(present_stream());
}

void DeviceLane::synchronize(std::string_view what) const {
  try {
    wait_for(stream_, limit_, what);
  } catch (const CommError&) {
    hangs_ = true;
    throw;
  }
}

void DeviceLane::await(const c10::Event& event, std::string_view what) const {
  try {
    wait_for(event, limit_, what);
  } catch (const CommError&) {
    hangs_ = true;
    throw;
  }
}

bool DeviceLane::comes_to_rest() const noexcept {
  return zero::comes_to_rest(stream_, hangs_ ? std::chrono::milliseconds(0) : limit_);
}

at::Tensor DeviceLane::allocate(std::int64_t bytes) const {
  const c10::StreamGuard on_stream(stream_);
  return at::empty({bytes}, at::TensorOptions().dtype(at::kByte).device(device())).zero_();
}

std::shared_ptr<const cuda::KernelApi> kernels_for(c10::Device device,
                                                   std::shared_ptr<const cuda::KernelApi> given) {
  if (given != nullptr) return given;
  const std::string advice =
      "optimizer: state cannot lie on this device; put what is missing in place, or keep masters "
      "and "
      "moments in host memory with Options().offload(Offload::kHost): ";
  if (!device.is_cuda()) throw Unavailable(advice + "libzero has no kernels for " + device.str());
  auto kernels = std::make_shared<cuda::KernelApi>();
  const std::string missing = cuda::load_kernels(plugin_candidates("cuda_kernels"), *kernels);
  if (!missing.empty()) throw Unavailable(advice + missing);
  return kernels;
}

}  // namespace zero
