#include "checkpoint/rank_memory.h"

#include "libzero/base/error.h"

namespace zero::checkpoint {
namespace {

constexpr std::size_t kNumberBytes = sizeof(std::int64_t);

void append(Blob& blob, std::int64_t value) {
  for (std::size_t i = 0; i < kNumberBytes; ++i)
    blob.push_back(static_cast<std::byte>(static_cast<std::uint64_t>(value) >> (8 * i)));
}

std::int64_t number_at(const Blob& blob, std::size_t begin) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < kNumberBytes; ++i)
    value |= static_cast<std::uint64_t>(blob[begin + i]) << (8 * i);
  return static_cast<std::int64_t>(value);
}

bool is_possible(std::int64_t bytes) {
  return bytes >= 0 && bytes < kMaxRankMemory;
}

}  // namespace

Blob to_blob(const RankMemory& memory) {
  ZERO_REQUIRE(is_possible(memory.host) && is_possible(memory.device),
               "a rank's memory must lie between 0 and 2^48 bytes: " + std::to_string(memory.host) +
                   ", " + std::to_string(memory.device));
  Blob blob;
  append(blob, memory.host);
  append(blob, memory.device);
  return blob;
}

std::optional<RankMemory> memory_of(const std::map<std::string, Blob>& rank_blobs, int rank) {
  const auto found = rank_blobs.find(std::string(kRankMemory));
  if (found == rank_blobs.end()) return std::nullopt;
  const auto refuse = [&](const std::string& problem) {
    throw FormatError(
        "a rank's memory is not two possible numbers of bytes, use another checkpoint: " + problem +
        ": blob " + std::string(kRankMemory) + " of rank " + std::to_string(rank));
  };
  const Blob& blob = found->second;
  if (blob.size() != 2 * kNumberBytes) refuse(std::to_string(blob.size()) + " bytes instead of 16");
  const RankMemory memory{number_at(blob, 0), number_at(blob, kNumberBytes)};
  if (!is_possible(memory.host) || !is_possible(memory.device))
    refuse(std::to_string(memory.host) + " and " + std::to_string(memory.device));
  return memory;
}

}  // namespace zero::checkpoint
