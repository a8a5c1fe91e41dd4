#pragma once

/// The functions of NCCL that this backend calls, as a table: see cuda_api.h. abi_check.cpp
/// compares what is declared here with nccl.h wherever that exists.

#include <climits>
#include <cstddef>

#include "backends/nccl/cuda_api.h"

namespace zero::nccl {

using NcclComm = void*;  ///< A ncclComm_t.

struct NcclUniqueId {
  char internal[128] = {};
};

// ncclResult_t
inline constexpr int kNcclSuccess = 0;
inline constexpr int kNcclInProgress = 7;
// ncclDataType_t
inline constexpr int kNcclUint8 = 1;
inline constexpr int kNcclFloat16 = 6;
inline constexpr int kNcclFloat32 = 7;
inline constexpr int kNcclBfloat16 = 9;
// ncclRedOp_t. No other one is used: averaging in a 16-bit type is biased.
inline constexpr int kNcclSum = 0;

/// 2.27: the first that is known to keep all that is relied on here.
inline constexpr int kOldestNccl = 22700;

/// ncclConfig_t as of 2.27: it carries its size and version, and later libraries fill in what they
/// have more.
struct NcclConfig {
  std::size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = kOldestNccl;
  int blocking = 0;
  int cga_cluster_size = INT_MIN;
  int min_ctas = INT_MIN;
  int max_ctas = INT_MIN;
  const char* net_name = nullptr;
  int split_share = INT_MIN;
  int traffic_class = INT_MIN;
  const char* comm_name = nullptr;
  int collnet_enable = INT_MIN;
  int cta_policy = INT_MIN;
  int shrink_share = INT_MIN;
  int nvls_ctas = INT_MIN;
};

/// Everything but the two texts returns a ncclResult_t. Communicators here never block: any call
/// may answer kNcclInProgress.
struct NcclApi {
  int (*get_version)(int* version) = nullptr;
  int (*get_unique_id)(NcclUniqueId* id) = nullptr;
  int (*comm_init_rank_config)(NcclComm* comm, int size, NcclUniqueId id, int rank,
                               NcclConfig* config) = nullptr;
  int (*comm_finalize)(NcclComm comm) = nullptr;
  int (*comm_destroy)(NcclComm comm) = nullptr;
  int (*comm_abort)(NcclComm comm) = nullptr;
  int (*comm_get_async_error)(NcclComm comm, int* error) = nullptr;
  int (*mem_alloc)(void** memory, std::size_t bytes) = nullptr;
  int (*mem_free)(void* memory) = nullptr;
  int (*comm_register)(NcclComm comm, void* memory, std::size_t bytes, void** handle) = nullptr;
  int (*comm_deregister)(NcclComm comm, void* handle) = nullptr;
  const char* (*get_error_string)(int error) = nullptr;
  const char* (*get_last_error)(NcclComm comm) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  int (*send)(const void* data, std::size_t count, int dtype, int peer, NcclComm comm,
              CudaStream stream) = nullptr;
  int (*recv)(void* data, std::size_t count, int dtype, int peer, NcclComm comm,
              CudaStream stream) = nullptr;
  int (*all_gather)(const void* in, void* out, std::size_t count, int dtype, NcclComm comm,
                    CudaStream stream) = nullptr;
  int (*broadcast)(const void* in, void* out, std::size_t count, int dtype, int root, NcclComm comm,
                   CudaStream stream) = nullptr;
  int (*reduce_scatter)(const void* in, void* out, std::size_t count, int dtype, int op,
                        NcclComm comm, CudaStream stream) = nullptr;
};

/// Calls visit(member, symbol) for each function of the table.
template <class Visit>
void for_each_nccl_function(NcclApi& api, Visit visit) {
  visit(api.get_version, "ncclGetVersion");
  visit(api.get_unique_id, "ncclGetUniqueId");
  visit(api.comm_init_rank_config, "ncclCommInitRankConfig");
  visit(api.comm_finalize, "ncclCommFinalize");
  visit(api.comm_destroy, "ncclCommDestroy");
  visit(api.comm_abort, "ncclCommAbort");
  visit(api.comm_get_async_error, "ncclCommGetAsyncError");
  visit(api.mem_alloc, "ncclMemAlloc");
  visit(api.mem_free, "ncclMemFree");
  visit(api.comm_register, "ncclCommRegister");
  visit(api.comm_deregister, "ncclCommDeregister");
  visit(api.get_error_string, "ncclGetErrorString");
  visit(api.get_last_error, "ncclGetLastError");
  visit(api.group_start, "ncclGroupStart");
  visit(api.group_end, "ncclGroupEnd");
  visit(api.send, "ncclSend");
  visit(api.recv, "ncclRecv");
  visit(api.all_gather, "ncclAllGather");
  visit(api.broadcast, "ncclBroadcast");
  visit(api.reduce_scatter, "ncclReduceScatter");
}

}  // namespace zero::nccl
