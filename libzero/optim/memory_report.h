#pragma once

#include <cstdint>

#include "libzero/optim/state_kind.h"

namespace zero {

/// Bytes that one rank holds for training, by kind. The kinds of the first block follow the formula
/// in docs/concepts.md exactly; alignment, block_sums and staging come on top. All functions count
/// bytes.
struct MemoryReport {
  std::int64_t parameters =
      0;  ///< Trainable parameters, in their own dtype; a tied one counts once.
  std::int64_t gradients = 0;    ///< `.grad` tensors kept over steps (stages 0 and 1).
  std::int64_t accumulator = 0;  ///< fp32 sum of the reduced gradients, owned elements.
  std::int64_t master =
      0;  ///< fp32 masters of 16-bit parameters; an fp32 parameter is its own master.
  std::int64_t exp_avg = 0;
  std::int64_t exp_avg_sq = 0;
  std::int64_t momentum_buffer = 0;
  std::int64_t ema = 0;

  std::int64_t alignment =
      0;  ///< Holes between parameters and padding of shards, in all of the above.
  std::int64_t block_sums = 0;  ///< The norm's: 8 bytes for each 64 elements of the accumulator.
  std::int64_t staging =
      0;  ///< The bucket-sized buffer that gradients and parameters travel through.
  std::int64_t offload_ring = 0;  ///< What passes through on its way from and to the disk.
  std::int64_t local_sums =
      0;  ///< fp32 sums of 16-bit gradients, whole, from the first call inside no_sync() on.
  std::int64_t frozen = 0;  ///< Parameters without gradient.
  std::int64_t buffers = 0;

  // Where the model lies on a GPU:
  std::int64_t host_image = 0;  ///< The trainable parameters once more, in host memory.
  /// In host memory: gradients on their way there, two buckets; where state lies on the GPU,
  /// payload of a backend that wants it in host memory.
  std::int64_t landing = 0;
  /// What of total() lies in the GPU's memory; the rest lies in the host's.
  std::int64_t on_device = 0;

  /// On the disk, not in memory: in no sum. Masters and moments, and what fills up pages.
  std::int64_t offloaded = 0;

  /// The kinds that the formula of docs/concepts.md counts.
  std::int64_t by_formula() const noexcept {
    return parameters + gradients + accumulator + master + exp_avg + exp_avg_sq + momentum_buffer +
           ema;
  }
  /// All memory that the report knows of, the host's and a GPU's.
  std::int64_t total() const noexcept {
    return by_formula() + alignment + block_sums + staging + offload_ring + local_sums + frozen +
           buffers + host_image + landing;
  }
  /// What of total() lies in host memory.
  std::int64_t on_host() const noexcept { return total() - on_device; }
};

/// Where the report counts a kind of state, to read or write. (Gradients of a window lie in the
/// accumulator.)
inline std::int64_t& bytes_of(MemoryReport& report, StateKind kind) noexcept {
  switch (kind) {
    case StateKind::kMaster:
      return report.master;
    case StateKind::kExpAvg:
      return report.exp_avg;
    case StateKind::kExpAvgSq:
      return report.exp_avg_sq;
    case StateKind::kMomentumBuffer:
      return report.momentum_buffer;
    case StateKind::kEma:
      return report.ema;
    case StateKind::kGradient:
      break;
  }
  return report.accumulator;
}

}  // namespace zero
