// A library that has NCCL's names and nothing behind them.

extern "C" {

#define ZERO_STUB(name)                               \
  __attribute__((visibility("default"))) int name() { \
    return 1;                                         \
  }

__attribute__((visibility("default"))) int ncclGetVersion(int* version) {
  *version = ZERO_STUB_VERSION;
  return 0;
}
ZERO_STUB(ncclGetUniqueId)
ZERO_STUB(ncclCommInitRankConfig)
ZERO_STUB(ncclCommFinalize)
ZERO_STUB(ncclCommDestroy)
ZERO_STUB(ncclCommAbort)
ZERO_STUB(ncclCommGetAsyncError)
ZERO_STUB(ncclMemAlloc)
ZERO_STUB(ncclMemFree)
ZERO_STUB(ncclCommRegister)
ZERO_STUB(ncclCommDeregister)
ZERO_STUB(ncclGetErrorString)
ZERO_STUB(ncclGetLastError)
ZERO_STUB(ncclGroupStart)
ZERO_STUB(ncclGroupEnd)
ZERO_STUB(ncclSend)
ZERO_STUB(ncclRecv)
ZERO_STUB(ncclAllGather)
ZERO_STUB(ncclBroadcast)
#ifdef ZERO_STUB_WHOLE
ZERO_STUB(ncclReduceScatter)
#endif
}
