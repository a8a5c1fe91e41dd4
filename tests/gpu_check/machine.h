#pragma once

/// What the check runs on: a machine with GPUs, or the fake one.

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "backends/nccl/libraries.h"
#include "tests/gpu_check/kept_store.h"

namespace torch::nn {
class Module;
}

namespace zero {
struct Options;
}

namespace zero::gpu_check {

class Machine {
 public:
  virtual ~Machine() = default;

  /// "NVIDIA H200, 140 GiB, ...".
  virtual std::string description() const = 0;
  virtual std::shared_ptr<const nccl::Apis> apis() const = 0;
  /// All parts but those of several ranks use the first one.
  virtual c10::Device device(int index) const = 0;
  virtual int devices() const = 0;
  virtual std::int64_t free_bytes() const = 0;
  /// Options of an optimizer whose state lies on the GPU.
  virtual Options options() const = 0;
  /// Where a checkpoint is kept.
  virtual std::unique_ptr<checkpoint::Store> store() const { return make_kept_store(); }
  /// module.to(device(0)).
  virtual void move(torch::nn::Module& module) const = 0;
};

using MachinePtr = std::unique_ptr<Machine>;
/// Throws Unavailable where there is none.
using MakeMachine = std::function<MachinePtr()>;

}  // namespace zero::gpu_check
