#pragma once

/// XXH3 in the vector instructions of the CPU at hand. The hashes are the same from all of them.

#include <cstddef>

namespace zero::checkpoint {

/// States are memory of kHashStateBytes, aligned to kHashStateAlignment; all kernels read and write
/// them alike. Results are 16 bytes, the high half first.
struct HashKernels {
  void (*hash)(const std::byte* data, std::size_t size, std::byte* result) noexcept;
  void (*reset)(std::byte* state) noexcept;
  void (*update)(std::byte* state, const std::byte* data, std::size_t size) noexcept;
  void (*value)(const std::byte* state, std::byte* result) noexcept;
};

inline constexpr std::size_t kHashStateBytes = 576;
inline constexpr std::size_t kHashStateAlignment = 64;

/// Runs on every CPU that the library runs on.
const HashKernels& baseline_hash_kernels() noexcept;
/// The fastest that this CPU runs.
const HashKernels& best_hash_kernels() noexcept;

}  // namespace zero::checkpoint
