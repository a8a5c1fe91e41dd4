#include "tests/gpu_check/cuda_machine.h"

#include <ATen/DeviceAccelerator.h>
#include <dlfcn.h>
#include <torch/torch.h>

#include <array>

#include "libzero/base/error.h"
#include "libzero/optim/options.h"
#include "libzero/train/device.h"
#include "tests/gpu_check/report.h"

namespace zero::gpu_check {
namespace {

/// A function of the driver; null where it has none.
template <class Function>
Function* of_driver(const char* symbol) {
  void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW);
  return driver == nullptr ? nullptr : reinterpret_cast<Function*>(::dlsym(driver, symbol));
}

std::string name_of_gpu() {
  std::array<char, 256> name{};
  auto* const get = of_driver<int(char*, int, int)>("cuDeviceGetName");
  if (get == nullptr || get(name.data(), static_cast<int>(name.size()) - 1, 0) != 0) return "GPU";
  return name.data();
}

std::string version_of_driver() {
  int version = 0;
  auto* const get = of_driver<int(int*)>("cuDriverGetVersion");
  return get == nullptr || get(&version) != 0 ? "unknown" : std::to_string(version);
}

class CudaMachine final : public Machine {
 public:
  explicit CudaMachine(const nccl::LibraryNames& names) {
    const CudaFound found = find_cuda();  // before anything asks for CUDA
    if (found.devices == 0) throw Unavailable("There is no GPU to train on: " + found.missing);
    apis_ = nccl::load_apis(names);
    devices_ = found.devices;
  }

  std::string description() const override {
    int runtime = 0;
    apis_->cuda.runtime_get_version(&runtime);
    constexpr double kGiB = 1 << 30;
    const auto [free, total] = memory();
    return std::to_string(devices_) + " x " + name_of_gpu() + ", " +
           number(static_cast<double>(total) / kGiB, 1) + " GiB of which " +
           number(static_cast<double>(free) / kGiB, 1) + " free; CUDA driver " +
           version_of_driver() + ", runtime " + std::to_string(runtime) + ", NCCL " +
           std::to_string(apis_->nccl_version) + ", LibTorch " TORCH_VERSION;
  }
  std::shared_ptr<const nccl::Apis> apis() const override { return apis_; }
  c10::Device device(int index) const override {
    return {c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(index)};
  }
  int devices() const override { return devices_; }
  std::int64_t free_bytes() const override { return static_cast<std::int64_t>(memory().first); }
  Options options() const override { return Options().device_kernels({apis_, &apis_->kernels}); }
  void move(torch::nn::Module& module) const override { module.to(device(0)); }

 private:
  std::pair<std::size_t, std::size_t> memory() const {
    torch::zeros({1}, device(0));  // the allocator answers once it has begun
    return at::getDeviceAllocator(device(0).type())->getMemoryInfo(0);
  }

  std::shared_ptr<const nccl::Apis> apis_;
  int devices_ = 0;
};

}  // namespace

MachinePtr make_cuda_machine(const nccl::LibraryNames& names) {
  return std::make_unique<CudaMachine>(names);
}

}  // namespace zero::gpu_check
