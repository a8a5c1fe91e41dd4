#include "backends/gpu_libraries.h"

#include <array>
#include <string>
#include <utility>

#include "backends/nccl/nccl.h"
#include "libzero/base/error.h"
#include "libzero/base/machine.h"
#include "libzero/collective/plugin_search.h"

namespace zero {
namespace {

constexpr std::size_t kBusIdBytes = 64;  // "0000:65:00.0"

nccl::LibraryNames library_names() {
  const Environment environment = process_environment();
  nccl::LibraryNames names;
  if (const auto path = environment("ZERO_NCCL_LIBRARY")) names.nccl = {*path};
  if (const auto path = environment("ZERO_CUDART_LIBRARY")) names.cudart = {*path};
  names.kernels = plugin_candidates("cuda_kernels");
  return names;
}

int count_devices(const nccl::CudaApi& cuda) {
  int devices = 0;
  cuda.get_device_count(&devices);  // it has answered before
  return devices;
}

/// "" if there is such a GPU.
std::string no_such_gpu(const nccl::CudaApi& cuda, int gpu) {
  const int devices = count_devices(cuda);
  if (gpu >= 0 && gpu < devices) return {};
  return "the CUDA runtime does not have this rank's GPU: number " + std::to_string(gpu) +
         " (from 0), GPUs " + std::to_string(devices);
}

/// The GPU of this rank's number on its host, or the only one that it was given.
int device_for(const nccl::CudaApi& cuda, const Topology& topology) {
  const int devices = count_devices(cuda);
  if (devices == 1) return 0;  // two ranks on one are refused later
  ZERO_REQUIRE(topology.local_rank < devices,
               "connect: the backend nccl needs a GPU for each rank; start fewer ranks on this "
               "host: this is number " +
                   std::to_string(topology.local_rank) + " (from 0) of " +
                   std::to_string(topology.local_size) + ", GPUs " + std::to_string(devices));
  return topology.local_rank;
}

}  // namespace

GpuLibraries::GpuLibraries(std::shared_ptr<const nccl::Apis> apis, int device)
    : apis_(std::move(apis)), device_(device) {}

GpuLibraries::GpuLibraries(const Topology& topology, std::optional<int> gpu)
    : apis_(nccl::load_apis(library_names())) {
  if (gpu) {
    const std::string problem = no_such_gpu(apis_->cuda, *gpu);
    ZERO_REQUIRE(problem.empty(),
                 "connect: give ConnectOptions::gpu as the CUDA runtime counts: " + problem);
  }
  device_ = gpu ? *gpu : device_for(apis_->cuda, topology);
}

std::optional<GpuLibraries> GpuLibraries::find(int gpu, std::string& missing) {
  nccl::LoadedApis loaded = nccl::find_apis(library_names());
  missing = loaded.apis ? no_such_gpu(loaded.apis->cuda, gpu) : loaded.missing;
  if (!missing.empty()) return std::nullopt;
  return GpuLibraries(std::move(loaded.apis), gpu);
}

GpuStanding GpuLibraries::standing() const {
  GpuStanding standing;
  standing.trains_on_gpu = true;
  standing.nccl_version = apis_->nccl_version;
  std::array<char, kBusIdBytes> bus{};
  const int error =
      apis_->cuda.device_get_pci_bus_id(bus.data(), static_cast<int>(bus.size()), device_);
  if (error == nccl::kCudaSuccess) {
    standing.gpu = machine_id() + "/" + bus.data();
    return standing;
  }
  apis_->cuda.get_last_error();  // it stays until somebody asks for it
  standing.missing = "GPU " + std::to_string(device_) +
                     " does not say where it is: " + apis_->cuda.get_error_string(error);
  return standing;
}

std::shared_ptr<Collective> GpuLibraries::join(std::shared_ptr<Collective> control,
                                               std::shared_ptr<KeyValueStore> store,
                                               std::chrono::milliseconds timeout) const {
  nccl::Options options;
  options.apis = apis_;
  options.control = std::move(control);
  options.store = std::move(store);
  options.device = device_;
  options.timeout = timeout;
  return nccl::join(std::move(options));
}

}  // namespace zero
