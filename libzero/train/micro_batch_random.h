#pragma once

/// Random numbers that belong to a micro-batch, not to the rank that computes it.

#include <cstdint>

#include "libzero/train/generator_states.h"

namespace zero {

/// While one lives, LibTorch's default generators draw the numbers of micro-batch `micro_batch` of
/// step `step`: dropout then gives the same bits on any number of ranks, and when a step is taken
/// again after a resume. Its destructor lets the generators go on where they were.
///
///   zero::MicroBatchRandom random(seed, optimizer.steps_taken(), i);  // i in the global batch
///   optimizer.backward(model->loss(micro_batch));
///
/// Let it live over backward too: recomputed activations draw again. Another instance may live
/// within; the inner one counts, and the outer one then goes on where it was.
///
/// The generators are LibTorch's: the CPU's, which all threads of the process share, and, where
/// this LibTorch finds CUDA, that of the current device. So no other thread may draw numbers
/// meanwhile: with dropout, a rank must be a process of its own. Destroy it on the thread that
/// made it, in reverse order of construction. Costs a few microseconds on the CPU.
class MicroBatchRandom {
 public:
  /// Any numbers; the rank must not be among them. Throws what LibTorch throws.
  MicroBatchRandom(std::uint64_t seed, std::int64_t step, std::int64_t micro_batch);
  ~MicroBatchRandom();
  MicroBatchRandom(const MicroBatchRandom&) = delete;
  MicroBatchRandom& operator=(const MicroBatchRandom&) = delete;

 private:
  GeneratorStates before_;
};

/// What the generators are seeded with: 64 bits that depend on every bit of the arguments, the same
/// in every version of libzero. With mix64 and kGoldenGamma of libzero/base/mix64.h (SplitMix64):
///
///   hash = mix64(seed + kGoldenGamma)
///   for value = step, micro_batch: hash = mix64(hash + kGoldenGamma + mix64(value))
std::uint64_t micro_batch_seed(std::uint64_t seed, std::int64_t step,
                               std::int64_t micro_batch) noexcept;

}  // namespace zero
