#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <dlfcn.h>

#include <exception>
#include <filesystem>

#include "libzero/train/device.h"

namespace zero {
namespace {

/// The folder that holds the LibTorch of this process.
std::filesystem::path libtorch_folder() {
  Dl_info info{};
  const auto address = reinterpret_cast<void*>(&at::globalContext);
  if (::dladdr(address, &info) == 0 || info.dli_fname == nullptr) return {};
  return std::filesystem::path(info.dli_fname).parent_path();
}

/// Empty, or why LibTorch's CUDA half is not there.
std::string load_cuda_half() {
  constexpr const char* kName = "libtorch_cuda.so";
  if (::dlopen(kName, RTLD_NOW | RTLD_NOLOAD) != nullptr) return {};
  const std::filesystem::path path = libtorch_folder() / kName;
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored))
    return "this LibTorch is built for CPUs; install one for CUDA: " + path.string() +
           " does not exist";
  if (::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) return {};
  const char* const reason = ::dlerror();
  return "LibTorch's CUDA half does not load; install what it needs (a torch wheel with all its "
         "nvidia packages has it): " +
         std::string(reason == nullptr ? path.string() : reason);
}

}  // namespace

CudaFound find_cuda() {
  if (std::string missing = load_cuda_half(); !missing.empty()) return {0, std::move(missing)};
  try {
    if (!at::globalContext().hasCUDA()) {
      return {0,
              "LibTorch finds no GPU, or was asked for CUDA before its CUDA half was loaded; see "
              "that the driver is loaded (nvidia-smi) and CUDA_VISIBLE_DEVICES hides none"};
    }
    return {static_cast<int>(at::detail::getCUDAHooks().deviceCount()), ""};
  } catch (const std::exception& error) {  // a driver that is too old, say
    const std::string text = error.what();
    return {0, text.substr(0, text.find('\n'))};
  }
}

}  // namespace zero
