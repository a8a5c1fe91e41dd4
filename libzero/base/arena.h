#pragma once

/// One piece of memory for many arrays that live as long as each other.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace zero {

/// Zeros, all of them present: no page fault comes later. In huge pages where the system has them.
///
/// Arrays that are walked side by side must not begin at the same offset of a page: a processor
/// tells a store from a load by the low bits of their addresses first, and its caches find a line
/// by them. So arrays that are taken one after the other begin at different offsets.
class Arena {
 public:
  /// What take() needs for an array of so many bytes, alignment included.
  static std::int64_t room_for(std::int64_t bytes) noexcept;

  /// Throws ContractError for a negative capacity, std::bad_alloc if the system has not that much.
  explicit Arena(std::int64_t capacity);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// The next array, aligned for the widest vector instructions (64 bytes). Throws ContractError if
  /// the capacity does not hold it.
  std::byte* take(std::int64_t bytes);

  /// Bytes of the arena, alignment included.
  std::int64_t capacity() const noexcept { return capacity_; }

 private:
  std::byte* mapping_ = nullptr;
  std::size_t mapped_ = 0;
  std::byte* base_ = nullptr;
  std::int64_t capacity_ = 0;
  std::int64_t used_ = 0;
  std::int64_t taken_ = 0;
};

/// An array of an arena, which it keeps alive.
template <typename T>
class ArenaArray {
 public:
  ArenaArray() = default;
  ArenaArray(std::shared_ptr<Arena> arena, std::int64_t size)
      : data_(reinterpret_cast<T*>(arena->take(size * static_cast<std::int64_t>(sizeof(T))))),
        size_(size),
        arena_(std::move(arena)) {}

  T* data() noexcept { return data_; }
  const T* data() const noexcept { return data_; }
  std::int64_t size() const noexcept { return size_; }
  std::int64_t bytes() const noexcept { return size_ * static_cast<std::int64_t>(sizeof(T)); }

 private:
  T* data_ = nullptr;
  std::int64_t size_ = 0;
  std::shared_ptr<Arena> arena_;
};

}  // namespace zero
