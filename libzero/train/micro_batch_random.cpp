#include "libzero/train/micro_batch_random.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/MT19937RNGEngine.h>

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

}  // namespace

std::uint64_t micro_batch_seed(std::uint64_t seed, std::int64_t step,
                               std::int64_t micro_batch) noexcept {
  std::uint64_t hash = mix(seed + kGoldenGamma);
  for (const std::int64_t value : {step, micro_batch})
    hash = mix(hash + kGoldenGamma + mix(static_cast<std::uint64_t>(value)));
  return hash;
}

MicroBatchRandom::MicroBatchRandom(std::uint64_t seed, std::int64_t step, std::int64_t micro_batch)
    : before_(GeneratorStates::now()) {
  const std::uint64_t value = micro_batch_seed(seed, step, micro_batch);
  for (at::Generator& generator : default_generators()) {
    const std::lock_guard lock(generator.mutex());
    if (generator.device().is_cpu()) {
      seed_cpu(*generator.get<at::CPUGeneratorImpl>(), value);
    } else {
      generator.set_current_seed(value);
    }
  }
}

MicroBatchRandom::~MicroBatchRandom() {
  before_.restore();
}

}  // namespace zero
