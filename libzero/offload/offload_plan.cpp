#include "libzero/offload/offload_plan.h"

#include <algorithm>
#include <string>

#include "libzero/base/error.h"

namespace zero {
namespace {

constexpr std::int64_t kPageElements = kPageBytes / static_cast<std::int64_t>(sizeof(float));

std::int64_t quotient_up(std::int64_t dividend, std::int64_t divisor) {
  return (dividend + divisor - 1) / divisor;
}

}  // namespace

OffloadPlan::OffloadPlan(std::span<const OffloadSpan> spans, std::int64_t block_elements) {
  ZERO_REQUIRE(block_elements > 0,
               "offload: a block needs elements: " + std::to_string(block_elements));
  for (const OffloadSpan& span : spans) {
    const std::int64_t size = span.end - span.begin;
    ZERO_REQUIRE(size >= 0, "offload: a span has no negative size: " + std::to_string(size));
    ZERO_REQUIRE(std::any_of(span.has.begin(), span.has.end(), [](bool has) { return has; }),
                 "offload: a span needs at least one array: bucket " + std::to_string(span.bucket));
    if (size == 0) continue;
    // Of one size, but for the last: a tiny block costs a disk as much time as a large one.
    const std::int64_t blocks = quotient_up(size, block_elements);
    const std::int64_t count =
        quotient_up(quotient_up(size, blocks), kPageElements) * kPageElements;
    for (std::int64_t begin = span.begin; begin < span.end; begin += count)
      add(span, begin, std::min(count, span.end - begin));
  }
}

void OffloadPlan::add(const OffloadSpan& span, std::int64_t begin, std::int64_t count) {
  OffloadBlock block{.bucket = span.bucket, .piece = span.piece, .begin = begin, .count = count};
  block.offset = file_bytes_;
  for (std::size_t array = 0; array < kOffloadedArrays; ++array) {
    block.at[array] = span.has[array] ? block.bytes : -1;
    if (span.has[array]) block.bytes += whole_pages(block.array_bytes());
  }
  file_bytes_ += block.bytes;
  largest_block_ = std::max(largest_block_, block.bytes);
  largest_array_ = std::max(largest_array_, whole_pages(block.array_bytes()));
  by_end_[span.bucket][begin + count] = blocks_.size();
  blocks_.push_back(block);
}

std::size_t OffloadPlan::find(std::int32_t bucket, std::int64_t element) const {
  const auto of_bucket = by_end_.find(bucket);
  if (of_bucket != by_end_.end()) {
    const auto found = of_bucket->second.upper_bound(element);
    if (found != of_bucket->second.end() && blocks_[found->second].begin <= element)
      return found->second;
  }
  throw ContractError("offload: no block holds this element: " + std::to_string(element) +
                      " of bucket " + std::to_string(bucket));
}

}  // namespace zero
