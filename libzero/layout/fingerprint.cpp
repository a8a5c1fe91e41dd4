#include "libzero/layout/fingerprint.h"

#include <cstddef>
#include <string_view>

#include "libzero/base/fnv.h"

namespace zero::layout_detail {
namespace {

void add(Fnv1a& hash, const ParameterSpec& parameter) {
  hash.add(std::string_view(parameter.name));
  hash.add_size(parameter.shape.size());
  for (const std::int64_t size : parameter.shape) hash.add(size);
  hash.add(static_cast<std::int64_t>(parameter.dtype));
  hash.add(std::int64_t{parameter.group});
  hash.add(std::int64_t{parameter.trainable});
  hash.add(std::int64_t{parameter.alias_of});
}

void add(Fnv1a& hash, const Bucket& bucket) {
  hash.add(static_cast<std::int64_t>(bucket.dtype));
  hash.add(bucket.numel);
  hash.add_size(bucket.parameters.size());
  for (const std::int32_t parameter : bucket.parameters) hash.add(std::int64_t{parameter});
}

}  // namespace

std::uint64_t fingerprint(std::span<const ParameterSpec> parameters, const LayoutOptions& options,
                          std::span<const Bucket> buckets, std::span<const Slot> slots) {
  Fnv1a hash;
  hash.add(options.bucket_bytes);
  hash.add(options.first_bucket_bytes);
  hash.add(options.shard_alignment);
  hash.add_size(parameters.size());
  for (const ParameterSpec& parameter : parameters) add(hash, parameter);
  hash.add_size(buckets.size());
  for (const Bucket& bucket : buckets) add(hash, bucket);
  for (const Slot& slot : slots) {
    hash.add(std::int64_t{slot.bucket});
    hash.add(slot.offset);
  }
  return hash.value();
}

}  // namespace zero::layout_detail
