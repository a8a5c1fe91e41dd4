#pragma once

/// Access to single elements of an offload file, through one array of one block at a time.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>

#include "libzero/offload/offload_file.h"
#include "libzero/offload/offload_plan.h"

namespace zero {

/// Called by one thread at a time. All functions throw IoError.
class ArrayWindow {
 public:
  /// Both must outlive this.
  ArrayWindow(const OffloadPlan& plan, OffloadFile& file) : plan_(plan), file_(file) {}

  /// Returns whether it has changed the values, which are written some time before flush() returns.
  using Part = std::function<bool(std::int64_t at, std::span<float> values)>;
  void for_each(std::int32_t bucket, OffloadedArray array, std::int64_t begin, std::int64_t end,
                const Part& part);
  void flush();
  /// REQUIRES flush() after changes. The memory is given back, too.
  void forget() noexcept;

 private:
  void show(std::size_t block, OffloadedArray array);

  const OffloadPlan& plan_;
  OffloadFile& file_;
  PageMemory memory_;
  std::optional<std::pair<std::size_t, OffloadedArray>> shown_;
  bool changed_ = false;
};

}  // namespace zero
