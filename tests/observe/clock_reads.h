#pragma once

/// Counts how often anybody in this process reads a clock. clock_reads.cpp replaces the C library's
/// clock_gettime, which every std::chrono clock calls.

#include <cstdint>

namespace zero::testing {

/// So far, of all threads.
std::int64_t clock_reads() noexcept;

}  // namespace zero::testing
