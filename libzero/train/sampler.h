#pragma once

/// Which samples a step trains on, whatever the number of ranks.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "libzero/optim/resume.h"
#include "libzero/train/permutation.h"

namespace zero {

/// What becomes of the samples at an epoch's end that fill no batch.
enum class LastBatch {
  kDrop,   ///< They are left out in this epoch; another epoch leaves out others.
  kPad,    ///< The batch is filled with the epoch's first samples, in its order.
  kRunOn,  ///< The batch is filled with the next epoch's first samples: it counts for both.
};

struct SamplerOptions {
  std::int64_t samples = 0;  ///< Of the data set.
  std::int64_t batch = 0;    ///< Of one step, over all ranks.
  std::uint64_t seed = 0;
  bool shuffle = true;  ///< By Permutation(samples, seed, epoch); false: in order.
  LastBatch last = LastBatch::kDrop;
};

/// Where a training stands in its data: `offset` samples of epoch `epoch` are through.
struct SamplerPosition {
  std::int64_t epoch = 0;
  std::int64_t offset = 0;
  friend bool operator==(const SamplerPosition&, const SamplerPosition&) = default;
};

/// The samples of one step.
struct SampleBatch {
  SamplerPosition begin;
  SamplerPosition end;                ///< Where the next batch begins: what a checkpoint keeps.
  std::vector<std::int64_t> samples;  ///< Indices into the data set, batch of them.
  std::int64_t padding = 0;           ///< How many at the end are repeats (LastBatch::kPad).
};

/// Deals out global batches: every rank has the same ones and takes its share (share_of). Since
/// ranks play no part in the order, a training that goes on with another number of them, in the
/// middle of an epoch too, sees every sample of the epoch exactly once.
///
///   zero::Sampler sampler({.samples = data.count(), .batch = 256, .seed = 1});
///   const zero::SampleBatch batch = sampler.next();
///   for (const auto& micro : zero::share_of(batch, 8, comm->rank(), comm->size())) ...
///   sampler.save(trainer, batch.end);   // of the batch last trained on, not last fetched
///
/// Not thread-safe, but save() may run beside next().
class Sampler {
 public:
  /// Throws ContractError naming the option: samples or batch below 1; more batch than samples
  /// where the rest is dropped, which would leave nothing.
  explicit Sampler(const SamplerOptions& options);

  /// The next batch of the epoch, or of the next epoch; the same on every rank. Never ends.
  SampleBatch next();

  /// Where the next next() begins.
  const SamplerPosition& position() const noexcept { return position_; }
  /// Throws ContractError unless epoch >= 0 and 0 <= offset <= samples.
  void go_to(const SamplerPosition& position);

  /// Adds counters "sampler.epoch", "sampler.offset", "sampler.samples", "sampler.seed" and
  /// "sampler.shuffle" to what a checkpoint keeps.
  void save(TrainerState& trainer, const SamplerPosition& position) const;

  /// Goes on where save() was told. Throws ContractError, leaving the position as it was, if
  /// counters are missing or out of range, or if samples, seed or shuffle differ: the position
  /// would mean other samples. The batch may differ.
  void load(const TrainerState& trainer);

 private:
  void begin_epoch(std::int64_t epoch);
  std::int64_t sample(std::int64_t offset) const;

  SamplerOptions options_;
  SamplerPosition position_;
  std::optional<Permutation> order_;  // of the position's epoch, where shuffled
};

/// A micro-batch of the global batch.
struct MicroBatch {
  std::int64_t index;                     ///< In the global batch; MicroBatchRandom wants it.
  std::span<const std::int64_t> samples;  ///< Of the SampleBatch, which must outlive it.
};

/// The micro-batches that belong to `rank` of `ranks`: number i belongs to rank i mod ranks, which
/// is what makes the bits of a training independent of the number of ranks. Throws ContractError
/// unless the batch is a multiple of micro_batch * ranks, so that all ranks have as many.
std::vector<MicroBatch> share_of(const SampleBatch& batch, std::int64_t micro_batch, int rank,
                                 int ranks);

}  // namespace zero
