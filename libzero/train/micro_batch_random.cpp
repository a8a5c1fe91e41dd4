#include "libzero/train/micro_batch_random.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/MT19937RNGEngine.h>

#include <mutex>

#include "libzero/base/mix64.h"

namespace zero {
namespace {

/// LibTorch's own seeding of the CPU's generator drops the upper half of the seed: of some 80,000
/// micro-batches, two would probably draw the same numbers.
void seed_cpu(at::CPUGeneratorImpl& generator, std::uint64_t seed) {
  generator.set_current_seed(seed);
  at::mt19937 engine = generator.engine();
  auto data = engine.data();
  std::uint64_t counter = seed;
  for (std::uint32_t& word : data.state_)
    word = static_cast<std::uint32_t>(mix64(counter += kGoldenGamma) >> 32);
  engine.set_data(data);
  generator.set_engine(engine);
}

}  // namespace

std::uint64_t micro_batch_seed(std::uint64_t seed, std::int64_t step,
                               std::int64_t micro_batch) noexcept {
  std::uint64_t hash = mix64(seed + kGoldenGamma);
  for (const std::int64_t value : {step, micro_batch})
    hash = mix64(hash + kGoldenGamma + mix64(static_cast<std::uint64_t>(value)));
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
