#pragma once

#include <cstdint>

namespace zero::testing {

/// Bytes that over-aligned `new` (as for arrays aligned to 64 bytes) has given out and not taken
/// back, in this process; counted by the replacement operators of live_bytes.cpp.
std::int64_t live_aligned_bytes() noexcept;

}  // namespace zero::testing
