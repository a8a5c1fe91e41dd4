#include "libzero/layout/bucketing.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace zero::layout_detail {
namespace {

constexpr std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// Fills buckets of one dtype, parameter by parameter.
class BucketFiller {
 public:
  BucketFiller(DType dtype, const LayoutOptions& options)
      : dtype_(dtype),
        first_cap_(options.first_bucket_bytes / size_of(dtype)),
        cap_(options.bucket_bytes / size_of(dtype)) {}

  void add(std::int32_t parameter, std::int64_t numel) {
    if (buckets_.empty() || !fits(numel)) buckets_.push_back({.dtype = dtype_, .parameters = {}});
    Bucket& bucket = buckets_.back();
    bucket.parameters.push_back(parameter);
    bucket.numel = round_up(bucket.numel, kSlotAlignment) + numel;
  }

  const std::vector<Bucket>& buckets() const { return buckets_; }

 private:
  bool fits(std::int64_t numel) const {
    const std::int64_t cap = buckets_.size() == 1 ? first_cap_ : cap_;
    // A subtraction, because the sum of two huge parameters would overflow.
    return numel <= cap - round_up(buckets_.back().numel, kSlotAlignment);
  }

  DType dtype_;
  std::int64_t first_cap_;
  std::int64_t cap_;
  std::vector<Bucket> buckets_;
};

void place(Bucketing& result, std::int32_t bucket_index) {
  std::int64_t end = 0;
  for (const std::int32_t parameter :
       result.buckets[static_cast<std::size_t>(bucket_index)].parameters) {
    Slot& slot = result.slots[static_cast<std::size_t>(parameter)];
    slot.bucket = bucket_index;
    slot.offset = round_up(end, kSlotAlignment);
    end = slot.offset + slot.numel;
  }
}

}  // namespace

Bucketing make_buckets(std::span<const ParameterSpec> parameters, const LayoutOptions& options) {
  Bucketing result;
  result.slots.resize(parameters.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) result.slots[i].numel = parameters[i].numel();

  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    BucketFiller filler(dtype, options);
    for (std::size_t i = parameters.size(); i-- > 0;) {
      const ParameterSpec& parameter = parameters[i];
      if (!parameter.trainable || parameter.alias_of != -1 || parameter.dtype != dtype) continue;
      filler.add(static_cast<std::int32_t>(i), result.slots[i].numel);
    }
    result.buckets.insert(result.buckets.end(), filler.buckets().begin(), filler.buckets().end());
  }
  // The first parameter of a bucket is its latest-registered one; no two buckets share it.
  std::sort(result.buckets.begin(), result.buckets.end(), [](const Bucket& a, const Bucket& b) {
    return a.parameters.front() > b.parameters.front();
  });

  for (std::size_t i = 0; i < result.buckets.size(); ++i)
    place(result, static_cast<std::int32_t>(i));
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::int32_t owner = parameters[i].alias_of;
    if (owner != -1) result.slots[i] = result.slots[static_cast<std::size_t>(owner)];
  }
  return result;
}

}  // namespace zero::layout_detail
