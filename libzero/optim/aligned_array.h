#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

namespace zero {

/// A fixed-size array of zeros whose first element is aligned for the widest vector instructions.
template <typename T>
class AlignedArray {
 public:
  static constexpr std::size_t kAlignment = 64;

  AlignedArray() = default;
  explicit AlignedArray(std::int64_t size)
      : data_(static_cast<T*>(::operator new (byte_count(size), std::align_val_t{kAlignment}))),
        size_(size) {
    std::memset(data_.get(), 0, byte_count(size));
  }

  T* data() noexcept { return data_.get(); }
  const T* data() const noexcept { return data_.get(); }
  std::int64_t size() const noexcept { return size_; }
  std::int64_t bytes() const noexcept { return size_ * static_cast<std::int64_t>(sizeof(T)); }

 private:
  struct Free {
    void operator()(T* pointer) const noexcept {
      ::operator delete (pointer, std::align_val_t{kAlignment});
    }
  };
  static std::size_t byte_count(std::int64_t size) {
    return static_cast<std::size_t>(size) * sizeof(T);
  }

  std::unique_ptr<T[], Free> data_;
  std::int64_t size_ = 0;
};

}  // namespace zero
