#pragma once

/// The layout written down position by position: slow, and too simple to be wrong.

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "libzero/layout/layout.h"

namespace zero::testing {

struct NaiveBucket {
  DType dtype;
  std::vector<std::int32_t> parameters;
  /// (parameter, element) of every flat position; {-1, 0} for a hole.
  std::vector<std::pair<std::int32_t, std::int64_t>> positions;
};

inline std::int64_t naive_numel(const ParameterSpec& parameter) {
  std::int64_t numel = 1;
  for (const std::int64_t size : parameter.shape) numel *= size;
  return numel;
}

/// `bucket` with a parameter behind it, the hole included.
inline NaiveBucket with_parameter(NaiveBucket bucket, std::int32_t parameter, std::int64_t numel) {
  while (bucket.positions.size() % 64 != 0) bucket.positions.push_back({-1, 0});
  for (std::int64_t i = 0; i < numel; ++i) bucket.positions.push_back({parameter, i});
  bucket.parameters.push_back(parameter);
  return bucket;
}

inline std::vector<NaiveBucket> naive_buckets(const std::vector<ParameterSpec>& parameters,
                                              const LayoutOptions& options) {
  std::map<int, std::vector<NaiveBucket>> by_dtype;
  for (int i = static_cast<int>(parameters.size()) - 1; i >= 0; --i) {
    const ParameterSpec& p = parameters[static_cast<std::size_t>(i)];
    if (!p.trainable || p.alias_of >= 0) continue;
    std::vector<NaiveBucket>& buckets = by_dtype[static_cast<int>(p.dtype)];
    if (!buckets.empty()) {
      const NaiveBucket grown = with_parameter(buckets.back(), i, naive_numel(p));
      const std::int64_t bytes =
          static_cast<std::int64_t>(grown.positions.size()) * (p.dtype == DType::kFloat32 ? 4 : 2);
      if (bytes <= (buckets.size() == 1 ? options.first_bucket_bytes : options.bucket_bytes)) {
        buckets.back() = grown;
        continue;
      }
    }
    buckets.push_back(with_parameter({p.dtype, {}, {}}, i, naive_numel(p)));
  }
  // Latest-registered first: look for each index, from the last down, which bucket it opens.
  std::vector<NaiveBucket> result;
  for (int i = static_cast<int>(parameters.size()) - 1; i >= 0; --i) {
    for (const auto& [dtype, buckets] : by_dtype) {
      for (const NaiveBucket& bucket : buckets) {
        if (bucket.parameters.front() == i) result.push_back(bucket);
      }
    }
  }
  return result;
}

/// The owner of a flat position: shards are equal multiples of the alignment, the smallest that
/// suffice.
inline int naive_owner(std::int64_t position, std::int64_t numel, std::int64_t alignment,
                       int world_size) {
  std::int64_t shard = alignment;
  while (shard * world_size < numel) shard += alignment;
  return static_cast<int>(position / shard);
}

}  // namespace zero::testing
