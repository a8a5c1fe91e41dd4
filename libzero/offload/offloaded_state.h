#pragma once

/// One rank's masters and moments where they are not in memory. The only class here that an
/// optimizer sees.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "libzero/offload/block_ring.h"
#include "libzero/offload/distant_state.h"
#include "libzero/offload/offload.h"
#include "libzero/offload/offload_plan.h"

namespace zero {

/// A block in memory; null where an array is not kept.
struct OffloadedRun {
  const OffloadBlock& where;
  float* master;
  std::array<float*, kOffloadedArrays - 1> kept;  ///< By kept_array().
};

/// Zeros at first. Members are called by one thread at a time. All that touch the file throw
/// IoError.
class OffloadedState final : public DistantState {
 public:
  /// Makes the file. `spans` in the order of the walk, `label` names the rank. Throws IoError.
  OffloadedState(const Offload& where, std::span<const OffloadSpan> spans,
                 const std::string& label);
  ~OffloadedState() override;

  /// A step's walk over everything, once, in order; for each block next(), then release().
  ///
  /// Starts to read the first blocks, if they are not on their way already, and returns at once.
  void begin();
  /// Waits for them. What it throws has ended the walk, and nothing has changed.
  void wait_for_first();
  /// Null at the end of the walk, and where there is none.
  const OffloadBlock* upcoming() const noexcept;
  /// What it throws has ended the walk; blocks before this one are new, those behind it are not.
  OffloadedRun next();
  void release();
  /// After the last block: waits until all is written.
  void finish();
  /// Gives a walk up; nothing has changed if no block was released.
  void cancel() noexcept;

  /// Not in a walk between next() and finish(). What is written is in the file after flush(), or
  /// when it is read here; write() and visit() cancel a walk that only has begun. They may cross
  /// blocks.
  void read(std::int32_t bucket, OffloadedArray array, std::int64_t begin,
            std::span<float> to) override;
  void write(std::int32_t bucket, OffloadedArray array, std::int64_t begin,
             std::span<const float> from) override;
  void visit(std::int32_t bucket, OffloadedArray array, std::int64_t begin, std::int64_t end,
             const Visit& visit) override;
  void flush() override;

  /// A new file in the same folder: of the same spans, or of others. Throws IoError.
  std::unique_ptr<OffloadedState> another() const;
  std::unique_ptr<OffloadedState> another(std::span<const OffloadSpan> spans) const;
  /// Takes over what another one holds, of the same spans, which then holds what this one held.
  void exchange(OffloadedState& other) noexcept;

  /// What it takes of memory in a walk; of which it takes most when the first one begins.
  std::int64_t memory_bytes() const noexcept;
  std::int64_t file_bytes() const noexcept;
  bool is_direct() const noexcept;
  const std::string& name() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace zero
