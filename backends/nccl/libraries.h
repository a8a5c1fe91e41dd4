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

struct LoadedApis {
  std::shared_ptr<const Apis> apis;
  std::string missing;  ///< Where apis is null, in one sentence: "NCCL does not load: ..."
};

/// Looks for what is needed: the libraries, their functions, NCCL 2.27 or later, and a GPU. Of
/// several names one that is loaded already counts before any other (a path: only in its turn).
/// Libraries stay loaded until the process ends.
LoadedApis find_apis(const LibraryNames& names);

/// The same, but throws Unavailable with what is missing.
std::shared_ptr<const Apis> load_apis(const LibraryNames& names);

}  // namespace zero::nccl
