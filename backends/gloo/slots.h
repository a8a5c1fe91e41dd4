#pragma once

#include <cstdint>

namespace zero::gloo_backend {

// Gloo's own collectives use the prefixes 0x01 to 0x08 in the top byte of a slot.
inline constexpr std::uint64_t kSlotPrefix = std::uint64_t{0x5a} << 56;
inline constexpr std::uint64_t kHeaderSlot = kSlotPrefix | 1;
inline constexpr std::uint64_t kReduceSlot = kSlotPrefix | 2;
inline constexpr std::uint64_t kGatherSlot = kSlotPrefix | 3;
inline constexpr std::uint64_t kLetterSlot = kSlotPrefix | 4;

}  // namespace zero::gloo_backend
