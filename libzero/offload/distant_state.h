#pragma once

/// One rank's masters, and what is kept beside them, where the host cannot point at them: in a
/// file, or in the memory of a GPU.

#include <cstdint>
#include <functional>
#include <span>

#include "libzero/offload/offload_plan.h"

namespace zero {

/// Elements of one bucket and one array, which may be any part of it. Members are called by one
/// thread at a time and throw what the place throws: IoError, or what LibTorch throws.
class DistantState {
 public:
  DistantState() = default;
  DistantState(const DistantState&) = delete;
  DistantState& operator=(const DistantState&) = delete;
  virtual ~DistantState() = default;

  virtual void read(std::int32_t bucket, OffloadedArray array, std::int64_t begin,
                    std::span<float> to) = 0;
  virtual void write(std::int32_t bucket, OffloadedArray array, std::int64_t begin,
                     std::span<const float> from) = 0;
  /// Calls `visit` for each part, which may change it: `at` is its first element.
  using Visit = std::function<void(std::int64_t at, std::span<float> values)>;
  virtual void visit(std::int32_t bucket, OffloadedArray array, std::int64_t begin,
                     std::int64_t end, const Visit& visit) = 0;
  /// The raw sums of gradients, counted from the beginning of the owned slice. False, and nothing
  /// read, where they lie in memory.
  virtual bool read_gradients(std::int32_t /*bucket*/, std::int64_t /*begin*/,
                              std::span<float> /*to*/) {
    return false;
  }
  /// After the last write() or visit(): what was written is in its place.
  virtual void flush() = 0;
};

}  // namespace zero
