#include "libzero/kernels/cuda/library.h"

#include <dlfcn.h>

namespace zero::cuda {

std::string load_kernels(const std::vector<std::string>& paths, KernelApi& kernels) {
  const std::string what = "libzero's library of CUDA kernels";
  std::string tried;
  void* library = nullptr;
  for (const std::string& path : paths) {
    library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) break;
    const char* text = dlerror();
    tried += (tried.empty() ? "" : "; ") + std::string(text == nullptr ? path.c_str() : text);
  }
  if (library == nullptr)
    return what + " does not load: " + (tried.empty() ? "no path is known" : tried);
  const auto fill = reinterpret_cast<KernelsFn>(dlsym(library, kKernelsSymbol));
  if (fill == nullptr) return what + " has no " + kKernelsSymbol;
  const std::int32_t version = fill(&kernels);
  if (version == kKernelsVersion) return "";
  return "the CUDA kernels were built for another libzero: version " + std::to_string(version) +
         ", wanted " + std::to_string(kKernelsVersion);
}

}  // namespace zero::cuda
