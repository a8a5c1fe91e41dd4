#pragma once

/// The functions of the CUDA runtime that this backend calls, as a table. Neither the runtime's
/// headers nor its library are needed to build: the real table is filled at run time (libraries.h),
/// another one by the tests. abi_check.cpp compares what is declared here with cuda_runtime_api.h
/// wherever that exists.

#include <cstddef>

namespace zero::nccl {

using CudaStream = void*;  ///< A cudaStream_t; null is the default stream.
using CudaEvent = void*;

// cudaError_t
inline constexpr int kCudaSuccess = 0;
inline constexpr int kCudaNotReady = 600;
// Flags of streams and events
inline constexpr unsigned kCudaStreamNonBlocking = 1;
inline constexpr unsigned kCudaEventDisableTiming = 2;
// cudaMemcpyKind: found out from the pointers.
inline constexpr int kCudaMemcpyDefault = 4;
// cudaMemoryType
inline constexpr int kCudaMemoryUnregistered = 0;  // the host's, and nobody told CUDA of it
inline constexpr int kCudaMemoryHost = 1;
inline constexpr int kCudaMemoryDevice = 2;
inline constexpr int kCudaMemoryManaged = 3;

/// cudaPointerAttributes; CUDA 13 has reserved words at its end.
struct CudaPointerAttributes {
  int type = 0;
  int device = 0;
  void* device_pointer = nullptr;
  void* host_pointer = nullptr;
  long reserved[8] = {};
};

/// Named as in the runtime, without "cuda". Everything but get_error_string returns a cudaError_t.
struct CudaApi {
  int (*runtime_get_version)(int* version) = nullptr;
  int (*get_device_count)(int* count) = nullptr;
  int (*get_device)(int* device) = nullptr;
  int (*set_device)(int device) = nullptr;
  int (*device_get_pci_bus_id)(char* text, int length, int device) = nullptr;
  int (*malloc)(void** memory, std::size_t bytes) = nullptr;
  int (*free)(void* memory) = nullptr;
  int (*malloc_host)(void** memory, std::size_t bytes) = nullptr;
  int (*free_host)(void* memory) = nullptr;
  int (*pointer_get_attributes)(CudaPointerAttributes* attributes, const void* memory) = nullptr;
  int (*memcpy_async)(void* to, const void* from, std::size_t bytes, int kind,
                      CudaStream stream) = nullptr;
  int (*stream_create_with_flags)(CudaStream* stream, unsigned flags) = nullptr;
  int (*stream_destroy)(CudaStream stream) = nullptr;
  int (*stream_query)(CudaStream stream) = nullptr;
  int (*stream_wait_event)(CudaStream stream, CudaEvent event, unsigned flags) = nullptr;
  int (*event_create_with_flags)(CudaEvent* event, unsigned flags) = nullptr;
  int (*event_destroy)(CudaEvent event) = nullptr;
  int (*event_record)(CudaEvent event, CudaStream stream) = nullptr;
  int (*event_query)(CudaEvent event) = nullptr;
  int (*get_last_error)() = nullptr;
  const char* (*get_error_string)(int error) = nullptr;

  /// The driver's, and not for_each_cuda_function's; null where it was not found. Whether anybody
  /// in this process uses the device: cudaSetDevice() makes each device that it names take memory.
  int (*device_primary_ctx_get_state)(int device, unsigned* flags, int* active) = nullptr;
};

/// Calls visit(member pointer, symbol) for each function of the table.
template <class Visit>
void for_each_cuda_function(CudaApi& api, Visit visit) {
  visit(api.runtime_get_version, "cudaRuntimeGetVersion");
  visit(api.get_device_count, "cudaGetDeviceCount");
  visit(api.get_device, "cudaGetDevice");
  visit(api.set_device, "cudaSetDevice");
  visit(api.device_get_pci_bus_id, "cudaDeviceGetPCIBusId");
  visit(api.malloc, "cudaMalloc");
  visit(api.free, "cudaFree");
  visit(api.malloc_host, "cudaMallocHost");
  visit(api.free_host, "cudaFreeHost");
  visit(api.pointer_get_attributes, "cudaPointerGetAttributes");
  visit(api.memcpy_async, "cudaMemcpyAsync");
  visit(api.stream_create_with_flags, "cudaStreamCreateWithFlags");
  visit(api.stream_destroy, "cudaStreamDestroy");
  visit(api.stream_query, "cudaStreamQuery");
  visit(api.stream_wait_event, "cudaStreamWaitEvent");
  visit(api.event_create_with_flags, "cudaEventCreateWithFlags");
  visit(api.event_destroy, "cudaEventDestroy");
  visit(api.event_record, "cudaEventRecord");
  visit(api.event_query, "cudaEventQuery");
  visit(api.get_last_error, "cudaGetLastError");
  visit(api.get_error_string, "cudaGetErrorString");
}

}  // namespace zero::nccl
