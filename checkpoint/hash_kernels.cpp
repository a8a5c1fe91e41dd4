#include "checkpoint/hash_kernels.inc"

namespace zero::checkpoint {

#ifdef ZERO_HASH_AVX2
extern const HashKernels kAvx2HashKernels;
#endif

const HashKernels& baseline_hash_kernels() noexcept {
  return kKernels;
}

const HashKernels& best_hash_kernels() noexcept {
#ifdef ZERO_HASH_AVX2
  if (__builtin_cpu_supports("avx2")) return kAvx2HashKernels;
#endif
  return kKernels;
}

}  // namespace zero::checkpoint
