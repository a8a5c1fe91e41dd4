#pragma once

/// Sleeping on a word that several processes map. Any thread.

#include <atomic>
#include <chrono>
#include <cstdint>

namespace zero::shm {

using Clock = std::chrono::steady_clock;

/// Sleeps while `word` holds `expected`, at most until `deadline`. May return early: look again.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                Clock::time_point deadline) noexcept;

/// Wakes all that sleep on `word`, in whatever process.
void futex_wake(const std::atomic<std::uint32_t>& word) noexcept;

}  // namespace zero::shm
