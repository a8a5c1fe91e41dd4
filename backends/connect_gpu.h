#pragma once

/// This rank's part in the question whether payload on GPUs travels over NCCL.

#include <memory>
#include <optional>
#include <string>

#include "backends/connect_settings.h"
#include "backends/gpu_libraries.h"
#include "backends/gpu_standing.h"
#include "libzero/collective/collective.h"
#include "libzero/collective/key_value_store.h"

namespace zero {

/// `settings` must outlive it. Its functions are called in their order.
class GpuSide {
 public:
  /// Needs no other rank. Throws like GpuLibraries, where NCCL must be.
  explicit GpuSide(const ConnectSettings& settings);

  /// Shows the other ranks what this one brings along: before the roll is called.
  void show(KeyValueStore& store) const;

  /// All ranks have shown it. Throws ContractError on every rank where NCCL must be and cannot.
  void decide(KeyValueStore& store);

  bool uses_nccl() const { return libraries_.has_value(); }
  /// "" where NCCL is used, or no rank trains on a GPU.
  const std::string& why_not() const { return why_not_; }

  /// Collective: NCCL beside `control`; or that itself, where NCCL is not used.
  std::shared_ptr<Collective> join(std::shared_ptr<Collective> control,
                                   std::shared_ptr<KeyValueStore> store) const;

 private:
  const ConnectSettings& settings_;
  std::optional<GpuLibraries> libraries_;
  GpuStanding standing_;
  std::string why_not_;
};

}  // namespace zero
