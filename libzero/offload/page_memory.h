#pragma once

/// Memory as a disk wants it.

#include <cstddef>
#include <cstdint>
#include <memory>

namespace zero {

/// Offsets, sizes and addresses that O_DIRECT takes on every disk in use.
inline constexpr std::int64_t kPageBytes = 4096;

constexpr std::int64_t whole_pages(std::int64_t bytes) noexcept {
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

/// Zeros that begin at a page.
class PageMemory {
 public:
  PageMemory() = default;
  /// Throws std::bad_alloc.
  explicit PageMemory(std::int64_t bytes);

  std::byte* data() noexcept { return data_.get(); }
  const std::byte* data() const noexcept { return data_.get(); }
  std::int64_t bytes() const noexcept { return bytes_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const noexcept;
  };
  std::unique_ptr<std::byte[], Free> data_;
  std::int64_t bytes_ = 0;
};

}  // namespace zero
