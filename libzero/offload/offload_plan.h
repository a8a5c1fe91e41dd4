#pragma once

/// Which elements lie where in an offload file. Pure arithmetic.

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "libzero/offload/page_memory.h"

namespace zero {

/// What is kept of an element, float32 each.
enum class OffloadedArray : std::uint8_t { kMaster = 0, kFirst = 1, kSecond = 2, kThird = 3 };
inline constexpr std::size_t kOffloadedArrays = 4;

/// Of those beside the master: AdamW's first moment is the first.
constexpr OffloadedArray kept_array(std::size_t index) noexcept {
  return static_cast<OffloadedArray>(index + 1);
}

/// Elements [begin, end) of a bucket's state that a step walks over in one go.
struct OffloadSpan {
  std::int32_t bucket = 0;
  std::int32_t piece = 0;  ///< Of the bucket; several spans may be of one.
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::array<bool, kOffloadedArrays> has = {true, true, true, false};  ///< By OffloadedArray.
};

/// What is read and written at once: its arrays one after the other, each in whole pages.
struct OffloadBlock {
  std::int32_t bucket = 0;
  std::int32_t piece = 0;
  std::int64_t begin = 0;
  std::int64_t count = 0;                           ///< Elements.
  std::array<std::int64_t, kOffloadedArrays> at{};  ///< Byte in the block; -1: not kept.
  std::int64_t offset = 0;                          ///< Byte in the file: whole pages.
  std::int64_t bytes = 0;                           ///< Whole pages.

  std::int64_t array_bytes() const noexcept {
    return count * static_cast<std::int64_t>(sizeof(float));
  }
};

/// Immutable; any number of threads may read it.
class OffloadPlan {
 public:
  /// `spans`: in the order of the walk, disjoint. A block has `block_elements` at most, rounded up
  /// to whole pages. Throws ContractError for a span of negative size
  /// or without an array.
  OffloadPlan(std::span<const OffloadSpan> spans, std::int64_t block_elements);

  /// In the order of the walk, and of the file.
  const std::vector<OffloadBlock>& blocks() const noexcept { return blocks_; }
  std::int64_t file_bytes() const noexcept { return file_bytes_; }
  std::int64_t largest_block() const noexcept { return largest_block_; }
  std::int64_t largest_array() const noexcept { return largest_array_; }

  /// The block that holds this element of a bucket. Throws ContractError if none does.
  std::size_t find(std::int32_t bucket, std::int64_t element) const;

 private:
  void add(const OffloadSpan& span, std::int64_t begin, std::int64_t count);

  std::vector<OffloadBlock> blocks_;
  std::map<std::int32_t, std::map<std::int64_t, std::size_t>> by_end_;  // bucket, end: block
  std::int64_t file_bytes_ = 0;
  std::int64_t largest_block_ = 0;
  std::int64_t largest_array_ = 0;
};

}  // namespace zero
