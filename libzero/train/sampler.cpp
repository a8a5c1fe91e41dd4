#include "libzero/train/sampler.h"

#include <bit>
#include <string>

#include "libzero/base/error.h"

namespace zero {
namespace {

constexpr const char* kEpoch = "sampler.epoch";
constexpr const char* kOffset = "sampler.offset";
constexpr const char* kSamples = "sampler.samples";
constexpr const char* kSeed = "sampler.seed";
constexpr const char* kShuffle = "sampler.shuffle";

std::int64_t counter(const TrainerState& trainer, const char* key) {
  const auto found = trainer.counters.find(key);
  ZERO_REQUIRE(found != trainer.counters.end(),
               std::string("Sampler: the checkpoint has no such counter; it was saved without "
                           "Sampler::save(): ") +
                   key);
  return found->second;
}

void require_same(const TrainerState& trainer, const char* key, std::int64_t mine) {
  const std::int64_t theirs = counter(trainer, key);
  ZERO_REQUIRE(theirs == mine,
               std::string("Sampler: the checkpoint's position in the data means other samples "
                           "here; use the data and options of the run that saved it: ") +
                   key + " is " + std::to_string(mine) + ", was " + std::to_string(theirs));
}

}  // namespace

Sampler::Sampler(const SamplerOptions& options) : options_(options) {
  ZERO_REQUIRE(options.samples >= 1,
               "Sampler: samples must be at least 1: " + std::to_string(options.samples));
  ZERO_REQUIRE(options.batch >= 1,
               "Sampler: batch must be at least 1: " + std::to_string(options.batch));
  ZERO_REQUIRE(options.last != LastBatch::kDrop || options.batch <= options.samples,
               "Sampler: a batch larger than the data would be dropped each epoch; use "
               "LastBatch::kPad or kRunOn: batch " +
                   std::to_string(options.batch) + ", samples " + std::to_string(options.samples));
  begin_epoch(0);
}

void Sampler::begin_epoch(std::int64_t epoch) {
  if (options_.shuffle) order_.emplace(options_.samples, options_.seed, epoch);
  position_ = {epoch, 0};
}

std::int64_t Sampler::sample(std::int64_t offset) const {
  return order_ ? order_->at(offset) : offset;
}

SampleBatch Sampler::next() {
  const std::int64_t left = options_.samples - position_.offset;
  const bool drops = options_.last == LastBatch::kDrop && left < options_.batch;
  if (drops || left == 0) begin_epoch(position_.epoch + 1);

  SampleBatch batch;
  batch.begin = position_;
  batch.samples.reserve(static_cast<std::size_t>(options_.batch));
  while (static_cast<std::int64_t>(batch.samples.size()) < options_.batch) {
    if (position_.offset < options_.samples) {
      batch.samples.push_back(sample(position_.offset++));
    } else if (options_.last == LastBatch::kPad) {
      batch.samples.push_back(sample(batch.padding++ % options_.samples));
    } else {
      begin_epoch(position_.epoch + 1);
    }
  }
  batch.end = position_;
  return batch;
}

void Sampler::go_to(const SamplerPosition& position) {
  ZERO_REQUIRE(position.epoch >= 0 && position.offset >= 0 && position.offset <= options_.samples,
               "Sampler: a position must have epoch >= 0 and 0 <= offset <= samples: epoch " +
                   std::to_string(position.epoch) + ", offset " + std::to_string(position.offset) +
                   ", samples " + std::to_string(options_.samples));
  begin_epoch(position.epoch);
  position_ = position;
}

void Sampler::save(TrainerState& trainer, const SamplerPosition& position) const {
  trainer.counters[kEpoch] = position.epoch;
  trainer.counters[kOffset] = position.offset;
  trainer.counters[kSamples] = options_.samples;
  trainer.counters[kSeed] = std::bit_cast<std::int64_t>(options_.seed);
  trainer.counters[kShuffle] = options_.shuffle ? 1 : 0;
}

void Sampler::load(const TrainerState& trainer) {
  require_same(trainer, kSamples, options_.samples);
  require_same(trainer, kSeed, std::bit_cast<std::int64_t>(options_.seed));
  require_same(trainer, kShuffle, options_.shuffle ? 1 : 0);
  go_to({counter(trainer, kEpoch), counter(trainer, kOffset)});
}

std::vector<MicroBatch> share_of(const SampleBatch& batch, std::int64_t micro_batch, int rank,
                                 int ranks) {
  ZERO_REQUIRE(ranks >= 1 && rank >= 0 && rank < ranks,
               "share_of: rank must lie in [0, ranks): " + std::to_string(rank) + " of " +
                   std::to_string(ranks));
  ZERO_REQUIRE(micro_batch >= 1,
               "share_of: micro_batch must be at least 1: " + std::to_string(micro_batch));
  const auto samples = static_cast<std::int64_t>(batch.samples.size());
  ZERO_REQUIRE(samples % micro_batch == 0 && samples / micro_batch % ranks == 0,
               "share_of: the batch must be a multiple of micro_batch times ranks, so that all "
               "ranks have as many micro-batches: batch " +
                   std::to_string(samples) + ", micro_batch " + std::to_string(micro_batch) +
                   ", ranks " + std::to_string(ranks));
  std::vector<MicroBatch> share;
  for (std::int64_t i = rank; i < samples / micro_batch; i += ranks) {
    share.push_back({i, std::span(batch.samples)
                            .subspan(static_cast<std::size_t>(i * micro_batch),
                                     static_cast<std::size_t>(micro_batch))});
  }
  return share;
}

}  // namespace zero
