#include "backends/connect_gpu.h"

#include <utility>

#include "libzero/base/error.h"

namespace zero {

GpuSide::GpuSide(const ConnectSettings& settings) : settings_(settings) {
  if (settings_.plan.nccl) {
    libraries_.emplace(settings_.topology, settings_.gpu);
    standing_ = libraries_->standing();
  } else if (settings_.plan.nccl_if_all_can && settings_.gpu) {
    std::string missing;
    libraries_ = GpuLibraries::find(*settings_.gpu, missing);
    if (libraries_) {
      standing_ = libraries_->standing();
    } else {
      standing_.trains_on_gpu = true;
      standing_.missing = missing;
    }
  }
}

void GpuSide::show(KeyValueStore& store) const {
  show_standing(store, settings_.topology.rank, standing_);
}

void GpuSide::decide(KeyValueStore& store) {
  const Topology& topology = settings_.topology;
  why_not_ = why_not_nccl(store, topology.rank, topology.size, settings_.timeout).value_or("");
  if (why_not_.empty()) return;
  ZERO_REQUIRE(!settings_.plan.nccl,
               "connect: the backend nccl needs a GPU of its own and the same NCCL for each rank; "
               "mend that, or take the backend auto: " +
                   why_not_);
  libraries_.reset();
}

std::shared_ptr<Collective> GpuSide::join(std::shared_ptr<Collective> control,
                                          std::shared_ptr<KeyValueStore> store) const {
  if (!libraries_) return control;
  return libraries_->join(std::move(control), std::move(store), settings_.timeout);
}

}  // namespace zero
