// Compares what this backend declares itself with the real headers, at compile time. Built only
// where they are found; contains no code.

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <type_traits>

#include "backends/nccl/cuda_api.h"
#include "backends/nccl/nccl_api.h"

namespace zero::nccl {
namespace {

/// How a type is passed: enumerations as integers of their size, pointers as pointers.
template <class T>
struct Passed {
  using type = T;
};
template <class T>
requires std::is_enum_v<T>
struct Passed<T> {
  using type = int;
  static_assert(sizeof(T) == sizeof(int));
};
template <class T>
requires(std::is_pointer_v<T> && !std::is_same_v<T, const char*>) struct Passed<T> {
  using type = void*;
};
template <>
struct Passed<ncclUniqueId> {
  using type = NcclUniqueId;
};

template <class Function>
struct Shape;
template <class Result, class... Arguments>
struct Shape<Result (*)(Arguments...)> {
  using type =
      typename Passed<Result>::type (*)(typename Passed<std::remove_cv_t<Arguments>>::type...);
};

template <class Ours, class Theirs>
constexpr bool same_shape =
    std::is_same_v<typename Shape<Ours>::type, typename Shape<Theirs>::type>;

#define ZERO_SAME(table, member, function) \
  static_assert(same_shape<decltype(table::member), decltype(&function)>, #function)

ZERO_SAME(CudaApi, runtime_get_version, cudaRuntimeGetVersion);
ZERO_SAME(CudaApi, get_device_count, cudaGetDeviceCount);
ZERO_SAME(CudaApi, get_device, cudaGetDevice);
ZERO_SAME(CudaApi, set_device, cudaSetDevice);
using Malloc = cudaError_t (*)(void**, size_t);  // overloaded in C++
static_assert(same_shape<decltype(CudaApi::malloc), Malloc>);
[[maybe_unused]] constexpr Malloc kMalloc = &cudaMalloc;
ZERO_SAME(CudaApi, free, cudaFree);
static_assert(same_shape<decltype(CudaApi::malloc_host), Malloc>);
[[maybe_unused]] constexpr Malloc kMallocHost = &cudaMallocHost;
ZERO_SAME(CudaApi, free_host, cudaFreeHost);
ZERO_SAME(CudaApi, device_get_pci_bus_id, cudaDeviceGetPCIBusId);
ZERO_SAME(CudaApi, device_primary_ctx_get_state, cuDevicePrimaryCtxGetState);
ZERO_SAME(CudaApi, pointer_get_attributes, cudaPointerGetAttributes);
ZERO_SAME(CudaApi, memcpy_async, cudaMemcpyAsync);
ZERO_SAME(CudaApi, stream_create_with_flags, cudaStreamCreateWithFlags);
ZERO_SAME(CudaApi, stream_destroy, cudaStreamDestroy);
ZERO_SAME(CudaApi, stream_query, cudaStreamQuery);
ZERO_SAME(CudaApi, stream_wait_event, cudaStreamWaitEvent);
ZERO_SAME(CudaApi, event_create_with_flags, cudaEventCreateWithFlags);
ZERO_SAME(CudaApi, event_destroy, cudaEventDestroy);
ZERO_SAME(CudaApi, event_record, cudaEventRecord);
ZERO_SAME(CudaApi, event_query, cudaEventQuery);
ZERO_SAME(CudaApi, get_last_error, cudaGetLastError);
ZERO_SAME(CudaApi, get_error_string, cudaGetErrorString);

static_assert(kCudaSuccess == cudaSuccess && kCudaNotReady == cudaErrorNotReady);
static_assert(kCudaStreamNonBlocking == cudaStreamNonBlocking);
static_assert(kCudaEventDisableTiming == cudaEventDisableTiming);
static_assert(kCudaMemcpyDefault == cudaMemcpyDefault);
static_assert(kCudaMemoryUnregistered == cudaMemoryTypeUnregistered);
static_assert(kCudaMemoryHost == cudaMemoryTypeHost);
static_assert(kCudaMemoryDevice == cudaMemoryTypeDevice);
static_assert(kCudaMemoryManaged == cudaMemoryTypeManaged);
static_assert(sizeof(CudaPointerAttributes) >= sizeof(cudaPointerAttributes));
static_assert(offsetof(CudaPointerAttributes, type) == offsetof(cudaPointerAttributes, type));
static_assert(offsetof(CudaPointerAttributes, device) == offsetof(cudaPointerAttributes, device));

ZERO_SAME(NcclApi, get_version, ncclGetVersion);
ZERO_SAME(NcclApi, get_unique_id, ncclGetUniqueId);
ZERO_SAME(NcclApi, comm_init_rank_config, ncclCommInitRankConfig);
ZERO_SAME(NcclApi, comm_finalize, ncclCommFinalize);
ZERO_SAME(NcclApi, comm_destroy, ncclCommDestroy);
ZERO_SAME(NcclApi, comm_abort, ncclCommAbort);
ZERO_SAME(NcclApi, comm_get_async_error, ncclCommGetAsyncError);
ZERO_SAME(NcclApi, mem_alloc, ncclMemAlloc);
ZERO_SAME(NcclApi, mem_free, ncclMemFree);
ZERO_SAME(NcclApi, comm_register, ncclCommRegister);
ZERO_SAME(NcclApi, comm_deregister, ncclCommDeregister);
ZERO_SAME(NcclApi, get_error_string, ncclGetErrorString);
ZERO_SAME(NcclApi, get_last_error, ncclGetLastError);
ZERO_SAME(NcclApi, group_start, ncclGroupStart);
ZERO_SAME(NcclApi, group_end, ncclGroupEnd);
ZERO_SAME(NcclApi, send, ncclSend);
ZERO_SAME(NcclApi, recv, ncclRecv);
ZERO_SAME(NcclApi, all_gather, ncclAllGather);
ZERO_SAME(NcclApi, broadcast, ncclBroadcast);
ZERO_SAME(NcclApi, reduce_scatter, ncclReduceScatter);

static_assert(sizeof(NcclUniqueId) == sizeof(ncclUniqueId));
static_assert(kNcclSuccess == ncclSuccess && kNcclInProgress == ncclInProgress);
static_assert(kNcclUint8 == ncclUint8 && kNcclFloat16 == ncclFloat16);
static_assert(kNcclFloat32 == ncclFloat32 && kNcclBfloat16 == ncclBfloat16);
static_assert(kNcclSum == ncclSum);
static_assert(NCCL_VERSION_CODE >= kOldestNccl);
static_assert(NCCL_CONFIG_UNDEF_INT == INT_MIN);

// A prefix of the real one: later libraries fill in the rest.
static_assert(sizeof(NcclConfig) <= sizeof(ncclConfig_t));
static_assert(offsetof(NcclConfig, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(NcclConfig, version) == offsetof(ncclConfig_t, version));
static_assert(offsetof(NcclConfig, blocking) == offsetof(ncclConfig_t, blocking));
static_assert(offsetof(NcclConfig, net_name) == offsetof(ncclConfig_t, netName));
static_assert(offsetof(NcclConfig, split_share) == offsetof(ncclConfig_t, splitShare));
static_assert(offsetof(NcclConfig, traffic_class) == offsetof(ncclConfig_t, trafficClass));
static_assert(offsetof(NcclConfig, comm_name) == offsetof(ncclConfig_t, commName));
static_assert(offsetof(NcclConfig, collnet_enable) == offsetof(ncclConfig_t, collnetEnable));
static_assert(offsetof(NcclConfig, nvls_ctas) == offsetof(ncclConfig_t, nvlsCTAs));

}  // namespace
}  // namespace zero::nccl
