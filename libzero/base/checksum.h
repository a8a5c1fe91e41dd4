#pragma once

/// A 64-bit hash of memory, fast enough to go over a whole model now and then.

#include <cstddef>
#include <cstdint>
#include <span>

namespace zero {

/// Finds accidents, not malice. A change within one 8-byte word always changes the result; any
/// other goes unseen once in 2^64. Words are read in the machine's byte order: to compare ranks
/// while they run, not for files.
std::uint64_t checksum(std::span<const std::byte> data) noexcept;

}  // namespace zero
