#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace zero::gloo_backend {

/// Memory that is kept from call to call and only grows.
class Scratch {
 public:
  std::byte* at_least(std::size_t bytes) {
    if (bytes > bytes_) {
      memory_.reset();
      memory_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
      bytes_ = bytes;
    }
    return memory_.get();
  }

  /// Of every rank's contribution to a sum.
  std::span<const void*> terms(int ranks) {
    terms_.resize(static_cast<std::size_t>(ranks));
    return terms_;
  }

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::size_t bytes_ = 0;
  std::vector<const void*> terms_;
};

}  // namespace zero::gloo_backend
