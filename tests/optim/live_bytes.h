#pragma once

#include <cstdint>

namespace zero::testing {

/// Bytes that over-aligned `new` (as for arrays aligned to 64 bytes) and arenas (mappings without
/// reserve, less the huge page that they need to align) have given out and not taken back, in this
/// process; counted by the replacements of live_bytes.cpp.
std::int64_t live_library_bytes() noexcept;

}  // namespace zero::testing
