#pragma once

/// Which memory NCCL's allocator gave, and what of it a communicator of NCCL's was told of.

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

namespace zero::nccl {

struct Range {
  const char* begin = nullptr;
  std::int64_t bytes = 0;

  bool holds(const void* data, std::int64_t length) const {
    const auto* const first = static_cast<const char*>(data);
    return first >= begin && first + length <= begin + bytes;
  }
};

/// What ncclMemAlloc gave and ncclMemFree has not taken back. Any thread.
class Allocations {
 public:
  void add(const Range& range);
  void remove(const void* begin);
  /// The one in which all of it lies.
  std::optional<Range> find(const void* data, std::int64_t bytes) const;

 private:
  mutable std::mutex mutex_;
  std::vector<Range> ranges_;
};

/// Of one communicator, with NCCL's handles. Any thread.
class Registrations {
 public:
  /// Returns its number.
  std::int64_t add(const Range& range, void* handle);
  /// The handle; nullopt if it is gone already.
  std::optional<void*> remove(std::int64_t number);
  std::vector<void*> remove_all();
  bool hold(const void* data, std::int64_t bytes) const;

 private:
  struct Entry {
    std::int64_t number;
    Range range;
    void* handle;
  };

  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
  std::int64_t next_ = 0;
};

}  // namespace zero::nccl
