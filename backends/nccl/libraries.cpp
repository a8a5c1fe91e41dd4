#include "backends/nccl/libraries.h"

#include <dlfcn.h>

#include "libzero/base/error.h"
#include "libzero/kernels/cuda/library.h"

namespace zero::nccl {
namespace {

[[noreturn]] void unavailable(const std::string& missing) {
  throw Unavailable(
      "The backend nccl cannot be used here, install what is missing or take the backend auto; it "
      "needs NCCL 2.27 or later, the CUDA runtime, a libzero built with CUDA kernels and a GPU: " +
      missing);
}

class Library {
 public:
  Library(const char* what, const std::vector<std::string>& names) : what_(what) {
    std::string tried;
    for (const std::string& name : names) {
      // Local: LibTorch may carry the same library in another version.
      handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle_ != nullptr) return;
      const char* text = dlerror();
      tried += (tried.empty() ? "" : "; ") + std::string(text == nullptr ? name.c_str() : text);
    }
    unavailable(what_ + " does not load: " + (tried.empty() ? "no path is known" : tried));
  }

  template <class Function>
  void find(Function*& function, const char* symbol) const {
    // By way of an integer: a pointer to an object is none to a function.
    function = reinterpret_cast<Function*>(dlsym(handle_, symbol));
    if (function == nullptr) unavailable(what_ + " has no " + symbol);
  }

 private:
  const std::string what_;
  void* handle_ = nullptr;  // never closed: it may have threads of its own
};

std::string version_text(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

void check_gpu(const CudaApi& cuda) {
  int devices = 0;
  const int error = cuda.get_device_count(&devices);
  if (error != kCudaSuccess) {
    cuda.get_last_error();  // it stays until somebody asks for it
    unavailable("there is no GPU: " + std::string(cuda.get_error_string(error)));
  }
  if (devices == 0) unavailable("there is no GPU: the CUDA runtime counts 0");
}

}  // namespace

std::shared_ptr<const Apis> load_apis(const LibraryNames& names) {
  auto apis = std::make_shared<Apis>();
  const Library nccl("NCCL", names.nccl);
  for_each_nccl_function(apis->nccl,
                         [&](auto& function, const char* symbol) { nccl.find(function, symbol); });
  if (apis->nccl.get_version(&apis->nccl_version) != kNcclSuccess ||
      apis->nccl_version < kOldestNccl) {
    unavailable("this NCCL is too old: " + version_text(apis->nccl_version));
  }
  const Library cudart("the CUDA runtime", names.cudart);
  for_each_cuda_function(
      apis->cuda, [&](auto& function, const char* symbol) { cudart.find(function, symbol); });
  const std::string missing = zero::cuda::load_kernels(names.kernels, apis->kernels);
  if (!missing.empty()) unavailable(missing);
  check_gpu(apis->cuda);
  return apis;
}

}  // namespace zero::nccl
