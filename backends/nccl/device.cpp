#include "backends/nccl/device.h"

#include <string>
#include <utility>

namespace zero::nccl {

void check_cuda(const Apis& apis, int error, const char* function) {
  if (error == kCudaSuccess) return;
  apis.cuda.get_last_error();  // or it would be taken for a later call's
  throw Broken(std::string(function) + " gave error " + std::to_string(error) + " (" +
               apis.cuda.get_error_string(error) + ")");
}

CudaPointerAttributes attributes_of(const Apis& apis, const void* memory) {
  CudaPointerAttributes attributes;
  check_cuda(apis, apis.cuda.pointer_get_attributes(&attributes, memory),
             "cudaPointerGetAttributes");
  return attributes;
}

OnDevice::OnDevice(const Apis& apis, int device) : apis_(apis) {
  check_cuda(apis_, apis_.cuda.get_device(&before_), "cudaGetDevice");
  changed_ = before_ != device;
  // Also where it is 0 already: a new thread has it in name only.
  check_cuda(apis_, apis_.cuda.set_device(device), "cudaSetDevice");
}

OnDevice::~OnDevice() {
  if (changed_ && is_used(before_)) apis_.cuda.set_device(before_);
}

bool OnDevice::is_used(int device) const {
  if (apis_.cuda.device_primary_ctx_get_state == nullptr) return true;
  unsigned flags = 0;
  int active = 0;
  // An ordinal of the runtime's is the driver's handle of the same device.
  const int error = apis_.cuda.device_primary_ctx_get_state(device, &flags, &active);
  return error != kCudaSuccess || active != 0;
}

Stream::Stream(ApisPtr apis) : apis_(std::move(apis)) {
  check_cuda(*apis_, apis_->cuda.stream_create_with_flags(&stream_, kCudaStreamNonBlocking),
             "cudaStreamCreateWithFlags");
}

Stream::~Stream() {
  if (stream_ != nullptr && !abandoned_) apis_->cuda.stream_destroy(stream_);
}

bool Stream::idle() const noexcept {
  return !abandoned_ && apis_->cuda.stream_query(stream_) != kCudaNotReady;
}

Event::Event(ApisPtr apis) : apis_(std::move(apis)) {
  check_cuda(*apis_, apis_->cuda.event_create_with_flags(&event_, kCudaEventDisableTiming),
             "cudaEventCreateWithFlags");
}

Event::~Event() {
  apis_->cuda.event_destroy(event_);
}

void Event::record(CudaStream stream) {
  check_cuda(*apis_, apis_->cuda.event_record(event_, stream), "cudaEventRecord");
}

void Event::make_wait(CudaStream stream) const {
  check_cuda(*apis_, apis_->cuda.stream_wait_event(stream, event_, 0), "cudaStreamWaitEvent");
}

bool Event::done() const {
  const int error = apis_->cuda.event_query(event_);
  if (error == kCudaNotReady) return false;
  check_cuda(*apis_, error, "cudaEventQuery");
  return true;
}

DeviceMemory::DeviceMemory(ApisPtr apis, std::int64_t bytes, Allocator allocator)
    : apis_(std::move(apis)), bytes_(bytes), allocator_(allocator) {
  const auto length = static_cast<std::size_t>(bytes);
  if (allocator_ == Allocator::kCuda) {
    check_cuda(*apis_, apis_->cuda.malloc(&memory_, length), "cudaMalloc");
    return;
  }
  const int error = apis_->nccl.mem_alloc(&memory_, length);
  if (error == kNcclSuccess) return;
  throw Broken("ncclMemAlloc gave error " + std::to_string(error) + " (" +
               apis_->nccl.get_error_string(error) + ")");
}

DeviceMemory::~DeviceMemory() {
  if (memory_ == nullptr) return;
  if (allocator_ == Allocator::kCuda) {
    apis_->cuda.free(memory_);
  } else {
    apis_->nccl.mem_free(memory_);
  }
}

}  // namespace zero::nccl
