#include "libzero/train/generator_states.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>

#include <mutex>

#include "libzero/optim/random_state.h"

namespace zero {

std::vector<at::Generator> default_generators() {
  std::vector<at::Generator> generators = {default_generator(at::kCPU)};
  if (!at::globalContext().hasCUDA()) return generators;
  const auto device = at::detail::getCUDAHooks().current_device();
  if (device >= 0) {
    generators.push_back(
        default_generator(at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(device))));
  }
  return generators;
}

GeneratorStates GeneratorStates::now() {
  GeneratorStates states;
  for (at::Generator& generator : default_generators()) {
    const std::lock_guard lock(generator.mutex());
    states.saved_.push_back({generator, generator.get_state()});
  }
  return states;
}

void GeneratorStates::restore() {
  for (Saved& saved : saved_) {
    const std::lock_guard lock(saved.generator.mutex());
    saved.generator.set_state(saved.state);
  }
}

}  // namespace zero
