#pragma once

/// The three libraries that this backend needs, loaded at run time.

#include <memory>
#include <string>
#include <vector>

#include "backends/nccl/cuda_api.h"
#include "backends/nccl/nccl_api.h"
#include "libzero/kernels/cuda/abi.h"

namespace zero::nccl {

struct Apis {
  NcclApi nccl;
  CudaApi cuda;
  zero::cuda::KernelApi kernels;
  int nccl_version = 0;  ///< 22809 for 2.28.9
};

/// Names as for dlopen(), or paths; of several the first that loads counts.
struct LibraryNames {
  std::vector<std::string> nccl = {"libnccl.so.2"};
  std::vector<std::string> cudart = {"libcudart.so.13", "libcudart.so.12", "libcudart.so"};
  std::vector<std::string> kernels;  ///< libzero's own: libzero_cuda_kernels.so
};

/// Throws Unavailable saying in one sentence what is missing: a library, a function of it,
/// NCCL 2.27 or later, or a GPU. Libraries stay loaded until the process ends.
std::shared_ptr<const Apis> load_apis(const LibraryNames& names);

}  // namespace zero::nccl
