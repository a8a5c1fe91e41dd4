#include "libzero/estimate/memory_estimate.h"

#include <algorithm>
#include <string>
#include <utility>

#include "libzero/base/arena.h"
#include "libzero/base/error.h"
#include "libzero/estimate/transformer.h"
#include "libzero/kernels/block_norm.h"
#include "libzero/offload/offload.h"
#include "libzero/optim/bucket_pieces.h"

namespace zero {
namespace {

constexpr std::int64_t kFp32 = 4;
constexpr int kMaxWorld = 65536;

/// One kind of a bucket's state: an array in the rank's arena.
struct StateArray {
  std::int64_t useful = 0;  // elements of parameters
  std::int64_t size = 0;    // elements with holes and padding

  std::int64_t useful_bytes() const { return useful * kFp32; }
  /// Holes, padding, and what the arena needs to begin the array where a page has room.
  std::int64_t alignment() const { return Arena::room_for(size * kFp32) - useful_bytes(); }
};

std::int64_t useful_elements(const Layout& layout, std::int32_t bucket, Interval interval) {
  std::int64_t total = 0;
  for (const Segment& segment : layout.segments(bucket, interval)) total += segment.numel;
  return total;
}

void check(const Layout& layout, const MemoryOptions& options) {
  ZERO_REQUIRE(options.stage >= 0 && options.stage <= 2,
               "estimate: the stage must be 0, 1 or 2: " + std::to_string(options.stage));
  ZERO_REQUIRE(options.world_size >= 1 && options.world_size <= kMaxWorld,
               "estimate: the world size must be 1 to " + std::to_string(kMaxWorld) + ": " +
                   std::to_string(options.world_size));
  for (auto kind = options.kept.begin(); kind != options.kept.end(); ++kind) {
    ZERO_REQUIRE(*kind != StateKind::kMaster && *kind != StateKind::kGradient &&
                     std::find(options.kept.begin(), kind, *kind) == kind,
                 std::string("estimate: a rule keeps each kind once, masters and gradients go "
                             "without saying: ") +
                     name_of(*kind));
  }
  elements_of(layout.parameters());
}

class Estimator {
 public:
  Estimator(const Layout& layout, const MemoryOptions& options)
      : layout_(layout), options_(options) {}

  MemoryEstimate run() {
    add_model();
    for (std::int32_t b = 0; b < static_cast<std::int32_t>(layout_.buckets().size()); ++b) {
      add_bucket(b);
    }
    if (options_.state == StatePlace::kDisk) report().offload_ring = ring_bytes();
    if (options_.state == StatePlace::kHost) move_to_host();
    return result_;
  }

 private:
  MemoryReport& report() { return result_.report; }

  void add_model() {
    std::int64_t largest = 0, all = 0;
    for (const ParameterSpec& row : layout_.parameters()) {
      if (row.alias_of >= 0) continue;
      const std::int64_t bytes = row.numel() * size_of(row.dtype);
      if (!row.trainable) {
        (row.group < 0 ? report().buffers : report().frozen) += bytes;
        continue;
      }
      largest = std::max(largest, bytes);
      all += bytes;
    }
    report().parameters = all;
    if (options_.stage < 2) report().gradients = all;
    const std::int64_t cap = std::min(layout_.options().bucket_bytes, all / 2 + 1) * 2;
    result_.waiting =
        options_.stage < 2 ? largest : std::min(all, std::max(cap, largest) + largest);
  }

  void add_bucket(std::int32_t b) {
    const Bucket& bucket = layout_.buckets()[static_cast<std::size_t>(b)];
    const Interval owned = layout_.shard(b, 0, options_.world_size);
    const Interval stepped = options_.stage == 0 ? Interval{0, bucket.numel} : owned;
    const std::int64_t padded = layout_.padded_shard_numel(b, options_.world_size);
    const StateArray sum{useful_elements(layout_, b, owned), padded};
    const StateArray kept{useful_elements(layout_, b, stepped), stepped.size()};
    const StateArray master = bucket.dtype == DType::kFloat32 ? StateArray{} : kept;

    report().accumulator += sum.useful_bytes();
    report().alignment += sum.alignment();
    report().block_sums += (padded + kNormBlock - 1) / kNormBlock * 8;
    add_state(master, report().master);
    for (const StateKind kind : options_.kept) add_state(kept, bytes_of(report(), kind));
    add_staging(b, bucket);
  }

  void add_state(const StateArray& array, std::int64_t& kind) {
    if (options_.state != StatePlace::kDisk) {
      kind += array.useful_bytes();
      report().alignment += array.alignment();
    } else {
      report().offloaded += array.size * kFp32;
    }
  }

  /// All but the model and its gradients, and what they have on the host once more: the image of
  /// the parameters, and two buckets of gradients that come down.
  void move_to_host() {
    MemoryReport& r = report();
    for (std::int64_t* const kind :
         {&r.accumulator, &r.master, &r.exp_avg, &r.exp_avg_sq, &r.momentum_buffer, &r.ema,
          &r.alignment, &r.block_sums, &r.staging}) {
      r.offloaded += std::exchange(*kind, 0);
    }
    std::int64_t largest = 0;
    for (const Bucket& bucket : layout_.buckets()) largest = std::max(largest, landing_of(bucket));
    r.offloaded += r.parameters + 2 * largest;
  }

  /// Each gradient begins at a multiple of 64 bytes.
  std::int64_t landing_of(const Bucket& bucket) const {
    std::int64_t bytes = 0;
    for (const std::int32_t p : bucket.parameters) {
      const ParameterSpec& row = layout_.parameters()[static_cast<std::size_t>(p)];
      bytes += (row.numel() * size_of(row.dtype) + 63) / 64 * 64;
    }
    return bytes;
  }

  /// The blocks of all arrays that are in memory at the same time, and one more of one.
  std::int64_t ring_bytes() const {
    if (result_.report.offloaded == 0) return 0;
    const auto arrays = static_cast<std::int64_t>(options_.kept.size()) + 1;
    const OffloadSize size;
    const std::int64_t block = size.block_elements * kFp32;
    const std::int64_t seals = result_.report.offloaded >> 14;  // of blocks, to know them again
    return size.blocks * arrays * block + block + seals;
  }

  void add_staging(std::int32_t b, const Bucket& bucket) {
    const std::int64_t wire = size_of(options_.wire.value_or(bucket.dtype));
    const std::int64_t gathered = options_.stage == 0 ? kFp32 : size_of(bucket.dtype);
    const std::int64_t elements =
        largest_piece(layout_, b, options_.world_size) * options_.world_size;
    report().staging = std::max(report().staging, elements * std::max(wire, gathered));
  }

  const Layout& layout_;
  const MemoryOptions& options_;
  MemoryEstimate result_;
};

}  // namespace

MemoryEstimate estimate_memory(const Layout& layout, const MemoryOptions& options) {
  check(layout, options);
  return Estimator(layout, options).run();
}

}  // namespace zero
