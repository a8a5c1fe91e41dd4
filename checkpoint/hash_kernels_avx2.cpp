// Compiled for CPUs with AVX2; only hash_kernels.cpp decides whether to call it.

#include "checkpoint/hash_kernels.inc"

namespace zero::checkpoint {

extern const HashKernels kAvx2HashKernels;
const HashKernels kAvx2HashKernels = kKernels;

}  // namespace zero::checkpoint
