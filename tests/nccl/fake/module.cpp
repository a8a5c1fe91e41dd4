// The fake machine as a library that has the names of NCCL, the CUDA runtime and libzero's kernels:
// for whoever loads these by their names.

#include "tests/nccl/fake/apis.h"
#include "tests/nccl/fake/streams.h"

namespace {

using zero::nccl::CudaEvent;
using zero::nccl::CudaPointerAttributes;
using zero::nccl::CudaStream;
using zero::nccl::NcclComm;
using zero::nccl::NcclConfig;
using zero::nccl::NcclUniqueId;

const zero::nccl::NcclApi kNccl = zero::nccl_test::fake_nccl();
const zero::nccl::CudaApi kCuda = zero::nccl_test::fake_cuda();

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int ncclGetVersion(int* version) {
  return kNccl.get_version(version);
}
int ncclGetUniqueId(NcclUniqueId* id) {
  return kNccl.get_unique_id(id);
}
int ncclCommInitRankConfig(NcclComm* comm, int size, NcclUniqueId id, int rank,
                           NcclConfig* config) {
  return kNccl.comm_init_rank_config(comm, size, id, rank, config);
}
int ncclCommFinalize(NcclComm comm) {
  return kNccl.comm_finalize(comm);
}
int ncclCommDestroy(NcclComm comm) {
  return kNccl.comm_destroy(comm);
}
int ncclCommAbort(NcclComm comm) {
  return kNccl.comm_abort(comm);
}
int ncclCommGetAsyncError(NcclComm comm, int* error) {
  return kNccl.comm_get_async_error(comm, error);
}
int ncclMemAlloc(void** memory, std::size_t bytes) {
  return kNccl.mem_alloc(memory, bytes);
}
int ncclMemFree(void* memory) {
  return kNccl.mem_free(memory);
}
int ncclCommRegister(NcclComm comm, void* memory, std::size_t bytes, void** handle) {
  return kNccl.comm_register(comm, memory, bytes, handle);
}
int ncclCommDeregister(NcclComm comm, void* handle) {
  return kNccl.comm_deregister(comm, handle);
}
const char* ncclGetErrorString(int error) {
  return kNccl.get_error_string(error);
}
const char* ncclGetLastError(NcclComm comm) {
  return kNccl.get_last_error(comm);
}
int ncclGroupStart() {
  return kNccl.group_start();
}
int ncclGroupEnd() {
  return kNccl.group_end();
}
int ncclSend(const void* data, std::size_t count, int dtype, int peer, NcclComm comm,
             CudaStream stream) {
  return kNccl.send(data, count, dtype, peer, comm, stream);
}
int ncclRecv(void* data, std::size_t count, int dtype, int peer, NcclComm comm, CudaStream stream) {
  return kNccl.recv(data, count, dtype, peer, comm, stream);
}
int ncclAllGather(const void* in, void* out, std::size_t count, int dtype, NcclComm comm,
                  CudaStream stream) {
  return kNccl.all_gather(in, out, count, dtype, comm, stream);
}
int ncclBroadcast(const void* in, void* out, std::size_t count, int dtype, int root, NcclComm comm,
                  CudaStream stream) {
  return kNccl.broadcast(in, out, count, dtype, root, comm, stream);
}
int ncclReduceScatter(const void* in, void* out, std::size_t count, int dtype, int op,
                      NcclComm comm, CudaStream stream) {
  return kNccl.reduce_scatter(in, out, count, dtype, op, comm, stream);
}

int cudaRuntimeGetVersion(int* version) {
  return kCuda.runtime_get_version(version);
}
int cudaGetDeviceCount(int* count) {
  return kCuda.get_device_count(count);
}
int cudaGetDevice(int* device) {
  return kCuda.get_device(device);
}
int cudaSetDevice(int device) {
  return kCuda.set_device(device);
}
int cudaDeviceGetPCIBusId(char* text, int length, int device) {
  return kCuda.device_get_pci_bus_id(text, length, device);
}
int cudaMalloc(void** memory, std::size_t bytes) {
  return kCuda.malloc(memory, bytes);
}
int cudaFree(void* memory) {
  return kCuda.free(memory);
}
int cudaMallocHost(void** memory, std::size_t bytes) {
  return kCuda.malloc_host(memory, bytes);
}
int cudaFreeHost(void* memory) {
  return kCuda.free_host(memory);
}
int cudaPointerGetAttributes(CudaPointerAttributes* attributes, const void* memory) {
  return kCuda.pointer_get_attributes(attributes, memory);
}
int cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, int kind, CudaStream stream) {
  return kCuda.memcpy_async(to, from, bytes, kind, stream);
}
int cudaStreamCreateWithFlags(CudaStream* stream, unsigned flags) {
  return kCuda.stream_create_with_flags(stream, flags);
}
int cudaStreamDestroy(CudaStream stream) {
  return kCuda.stream_destroy(stream);
}
int cudaStreamQuery(CudaStream stream) {
  return kCuda.stream_query(stream);
}
int cudaStreamWaitEvent(CudaStream stream, CudaEvent event, unsigned flags) {
  return kCuda.stream_wait_event(stream, event, flags);
}
int cudaEventCreateWithFlags(CudaEvent* event, unsigned flags) {
  return kCuda.event_create_with_flags(event, flags);
}
int cudaEventDestroy(CudaEvent event) {
  return kCuda.event_destroy(event);
}
int cudaEventRecord(CudaEvent event, CudaStream stream) {
  return kCuda.event_record(event, stream);
}
int cudaEventQuery(CudaEvent event) {
  return kCuda.event_query(event);
}
int cudaGetLastError() {
  return kCuda.get_last_error();
}
const char* cudaGetErrorString(int error) {
  return kCuda.get_error_string(error);
}

std::int32_t zero_cuda_kernels(zero::cuda::KernelApi* api) {
  *api = zero::nccl_test::fake_kernels();
  return zero::cuda::kKernelsVersion;
}

}  // extern "C"
#pragma GCC visibility pop
