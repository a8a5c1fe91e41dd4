#include "backends/connect_gpu.h"

#include <string>
#include <utility>

#include "backends/nccl/nccl.h"
#include "libzero/collective/plugin_search.h"
#include "libzero/base/error.h"

namespace zero {
namespace {

nccl::LibraryNames library_names() {
  const Environment environment = process_environment();
  nccl::LibraryNames names;
  if (const auto path = environment("ZERO_NCCL_LIBRARY")) names.nccl = {*path};
  if (const auto path = environment("ZERO_CUDART_LIBRARY")) names.cudart = {*path};
  names.kernels = plugin_candidates("cuda_kernels");
  return names;
}

/// The GPU of this rank's number on its host, or the only one that it was given.
int device_for(const nccl::CudaApi& cuda, const Topology& topology) {
  int devices = 0;
  cuda.get_device_count(&devices);
  if (devices == 1) return 0;  // NCCL itself refuses two ranks on one
  ZERO_REQUIRE(topology.local_rank < devices,
               "connect: the backend nccl needs a GPU for each rank; start fewer ranks on this "
               "host: this is number " +
                   std::to_string(topology.local_rank) + " (from 0) of " +
                   std::to_string(topology.local_size) + ", GPUs " + std::to_string(devices));
  return topology.local_rank;
}

}  // namespace

GpuLibraries::GpuLibraries(const Topology& topology)
    : apis_(nccl::load_apis(library_names())), device_(device_for(apis_->cuda, topology)) {}

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
