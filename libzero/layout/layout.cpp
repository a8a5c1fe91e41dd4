#include "libzero/layout/layout.h"

#include <cstddef>
#include <string>
#include <utility>

#include "libzero/base/error.h"
#include "libzero/layout/bucketing.h"
#include "libzero/layout/fingerprint.h"
#include "libzero/layout/validation.h"

namespace zero {

Layout::Layout(std::vector<ParameterSpec> parameters, LayoutOptions options)
    : parameters_(std::move(parameters)), options_(options) {
  layout_detail::validate(options_);
  layout_detail::validate(parameters_);
  auto [buckets, slots] = layout_detail::make_buckets(parameters_, options_);
  buckets_ = std::move(buckets);
  slots_ = std::move(slots);
  fingerprint_ = layout_detail::fingerprint(parameters_, options_, buckets_, slots_);
}

Slot Layout::slot(std::int32_t parameter) const {
  ZERO_REQUIRE(parameter >= 0 && static_cast<std::size_t>(parameter) < slots_.size(),
               "No parameter has this index; the layout holds " + std::to_string(slots_.size()) +
                   " parameters: " + std::to_string(parameter));
  return slots_[static_cast<std::size_t>(parameter)];
}

const Bucket& Layout::checked_bucket(std::int32_t bucket) const {
  ZERO_REQUIRE(bucket >= 0 && static_cast<std::size_t>(bucket) < buckets_.size(),
               "No bucket has this index; the layout holds " + std::to_string(buckets_.size()) +
                   " buckets: " + std::to_string(bucket));
  return buckets_[static_cast<std::size_t>(bucket)];
}

}  // namespace zero
