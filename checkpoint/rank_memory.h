#pragma once

/// What a rank's optimizer held as it saved: a fact for people, which no load looks at.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/training_state.h"

namespace zero::checkpoint {

/// Bytes, below kMaxRankMemory each.
struct RankMemory {
  std::int64_t host = 0;
  std::int64_t device = 0;  ///< In the memory of a GPU; 0 without one.
  friend bool operator==(const RankMemory&, const RankMemory&) = default;
};

/// So that sums over kMaxWorldSize ranks fit into 64 bits.
inline constexpr std::int64_t kMaxRankMemory = std::int64_t{1} << 48;

/// The rank blob that holds it.
inline constexpr std::string_view kRankMemory = "optimizer.memory";

/// Two int64, little-endian: host, device. REQUIRES 0 to kMaxRankMemory - 1.
Blob to_blob(const RankMemory& memory);

/// Nothing if the rank does not say. Throws FormatError naming rank and blob.
std::optional<RankMemory> memory_of(const std::map<std::string, Blob>& rank_blobs, int rank);

}  // namespace zero::checkpoint
