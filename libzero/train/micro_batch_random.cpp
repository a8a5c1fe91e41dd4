#include "libzero/train/micro_batch_random.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/MT19937RNGEngine.h>
#include <ATen/detail/CUDAHooksInterface.h>

#include <mutex>

namespace zero {
namespace {

/// The steps of the SplitMix64 generator (Steele, Lea, Flood, OOPSLA 2014).
constexpr std::uint64_t kGoldenGamma = 0x9e3779b97f4a7c15u;

constexpr std::uint64_t mix(std::uint64_t z) noexcept {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/// LibTorch's own seeding of the CPU's generator drops the upper half of the seed: of some 80,000
/// micro-batches, two would probably draw the same numbers.
void seed_cpu(at::CPUGeneratorImpl& generator, std::uint64_t seed) {
  generator.set_current_seed(seed);
  at::mt19937 engine = generator.engine();
  auto data = engine.data();
  std::uint64_t counter = seed;
  for (std::uint32_t& word : data.state_)
    word = static_cast<std::uint32_t>(mix(counter += kGoldenGamma) >> 32);
  engine.set_data(data);
  generator.set_engine(engine);
}

std::vector<at::Generator> default_generators() {
  std::vector<at::Generator> generators = {at::detail::getDefaultCPUGenerator()};
  if (!at::globalContext().hasCUDA()) return generators;
  const auto device = at::detail::getCUDAHooks().current_device();
  if (device >= 0) {
    generators.push_back(at::globalContext().defaultGenerator(
        at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(device))));
  }
  return generators;
}

}  // namespace

std::uint64_t micro_batch_seed(std::uint64_t seed, std::int64_t step,
                               std::int64_t micro_batch) noexcept {
  std::uint64_t hash = mix(seed + kGoldenGamma);
  for (const std::int64_t value : {step, micro_batch})
    hash = mix(hash + kGoldenGamma + mix(static_cast<std::uint64_t>(value)));
  return hash;
}

MicroBatchRandom::MicroBatchRandom(std::uint64_t seed, std::int64_t step,
                                   std::int64_t micro_batch) {
  std::vector<at::Generator> all = default_generators();
  for (at::Generator& generator : all) {
    const std::lock_guard lock(generator.mutex());
    saved_.push_back({generator, generator.get_state()});
  }
  const std::uint64_t value = micro_batch_seed(seed, step, micro_batch);
  for (Saved& saved : saved_) {
    const std::lock_guard lock(saved.generator.mutex());
    if (saved.generator.device().is_cpu()) {
      seed_cpu(*saved.generator.get<at::CPUGeneratorImpl>(), value);
    } else {
      saved.generator.set_current_seed(value);
    }
  }
}

MicroBatchRandom::~MicroBatchRandom() {
  for (Saved& saved : saved_) {
    const std::lock_guard lock(saved.generator.mutex());
    saved.generator.set_state(saved.state);
  }
}

}  // namespace zero
