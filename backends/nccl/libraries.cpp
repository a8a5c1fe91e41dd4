#include "backends/nccl/libraries.h"

#include <dlfcn.h>

#include "libzero/base/error.h"
#include "libzero/kernels/cuda/library.h"

namespace zero::nccl {
namespace {

/// What is missing, in words.
struct Missing {
  std::string text;
};

class Library {
 public:
  Library(const char* what, const std::vector<std::string>& names) : what_(what) {
    // LibTorch has its own copies loaded: another version of the same library beside it would have
    // another idea of what is going on, and may not suit the driver.
    for (const std::string& name : names) {
      if (name.find('/') == name.npos && open(name, RTLD_NOLOAD)) return;
    }
    std::string tried;
    for (const std::string& name : names) {
      if (open(name, 0)) return;
      const char* text = dlerror();
      tried += (tried.empty() ? "" : "; ") + std::string(text == nullptr ? name.c_str() : text);
    }
    throw Missing{what_ + " does not load: " + (tried.empty() ? "no path is known" : tried)};
  }

  template <class Function>
  void find(Function*& function, const char* symbol) const {
    // By way of an integer: a pointer to an object is none to a function.
    function = reinterpret_cast<Function*>(dlsym(handle_, symbol));
    if (function == nullptr) throw Missing{what_ + " has no " + symbol};
  }

 private:
  bool open(const std::string& name, int flags) {
    handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | flags);
    return handle_ != nullptr;
  }

  const std::string what_;
  void* handle_ = nullptr;  // never closed: it may have threads of its own
};

std::string version_text(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

void find_nccl(Apis& apis, const LibraryNames& names) {
  const Library nccl("NCCL", names.nccl);
  for_each_nccl_function(apis.nccl,
                         [&](auto& function, const char* symbol) { nccl.find(function, symbol); });
  if (apis.nccl.get_version(&apis.nccl_version) != kNcclSuccess ||
      apis.nccl_version < kOldestNccl) {
    throw Missing{"this NCCL is too old: " + version_text(apis.nccl_version)};
  }
}

void find_cuda(Apis& apis, const LibraryNames& names) {
  const Library cudart("the CUDA runtime", names.cudart);
  for_each_cuda_function(
      apis.cuda, [&](auto& function, const char* symbol) { cudart.find(function, symbol); });
}

void find_kernels(Apis& apis, const LibraryNames& names) {
  const std::string missing = zero::cuda::load_kernels(names.kernels, apis.kernels);
  if (!missing.empty()) throw Missing{missing};
}

void find_gpu(const CudaApi& cuda) {
  int devices = 0;
  const int error = cuda.get_device_count(&devices);
  if (error != kCudaSuccess) {
    cuda.get_last_error();  // it stays until somebody asks for it
    throw Missing{"there is no GPU: " + std::string(cuda.get_error_string(error))};
  }
  if (devices == 0) throw Missing{"there is no GPU: the CUDA runtime counts 0"};
}

/// The runtime has loaded the driver by now. Without this function all works too.
void find_driver(CudaApi& cuda) {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (driver == nullptr) return;
  using State = decltype(cuda.device_primary_ctx_get_state);
  cuda.device_primary_ctx_get_state =
      reinterpret_cast<State>(dlsym(driver, "cuDevicePrimaryCtxGetState"));
}

}  // namespace

LoadedApis find_apis(const LibraryNames& names) {
  auto apis = std::make_shared<Apis>();
  try {
    find_nccl(*apis, names);
    find_cuda(*apis, names);
    find_kernels(*apis, names);
    find_gpu(apis->cuda);
  } catch (const Missing& missing) {
    return {nullptr, missing.text};
  }
  find_driver(apis->cuda);
  return {std::move(apis), ""};
}

std::shared_ptr<const Apis> load_apis(const LibraryNames& names) {
  LoadedApis loaded = find_apis(names);
  if (loaded.apis) return loaded.apis;
  throw Unavailable(
      "The backend nccl cannot be used here, install what is missing or take the backend auto; it "
      "needs NCCL 2.27 or later, the CUDA runtime, a libzero built with CUDA kernels and a GPU: " +
      loaded.missing);
}

}  // namespace zero::nccl
