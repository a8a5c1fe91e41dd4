#include "libzero/layout/validation.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "libzero/base/error.h"

namespace zero::layout_detail {
namespace {

void require_positive(std::int64_t value, std::string_view option) {
  ZERO_REQUIRE(value > 0, "A layout option must be positive: " + std::string(option) + " is " +
                              std::to_string(value));
}

void validate_dtype(const ParameterSpec& parameter) {
  ZERO_REQUIRE(name_of(parameter.dtype) != "unknown",
               "A parameter has an unknown dtype; convert it to one that libzero knows: " +
                   parameter.name + " dtype " + std::to_string(static_cast<int>(parameter.dtype)));
  ZERO_REQUIRE(
      !parameter.trainable || is_floating(parameter.dtype),
      "A trainable parameter must be float32, bfloat16 or float16; convert or freeze it: " +
          describe(parameter));
}

void validate_alias(std::span<const ParameterSpec> parameters, std::size_t index) {
  const ParameterSpec& parameter = parameters[index];
  if (parameter.alias_of == -1) return;
  ZERO_REQUIRE(
      parameter.alias_of >= 0 && static_cast<std::size_t>(parameter.alias_of) < index,
      "An alias must refer to an earlier parameter; set alias_of to the first owner's index: " +
          describe(parameter) + " at index " + std::to_string(index));
  const ParameterSpec& owner = parameters[static_cast<std::size_t>(parameter.alias_of)];
  ZERO_REQUIRE(owner.alias_of == -1,
               "An alias refers to another alias; set alias_of to the first owner's index: " +
                   describe(parameter) + " -> " + describe(owner));
  ZERO_REQUIRE(owner.shape == parameter.shape && owner.dtype == parameter.dtype,
               "An alias differs from its owner in shape or dtype; only the same tensor may be "
               "tied: " +
                   describe(parameter) + " -> " + describe(owner));
}

}  // namespace

void validate(const LayoutOptions& options) {
  require_positive(options.bucket_bytes, "bucket_bytes");
  require_positive(options.first_bucket_bytes, "first_bucket_bytes");
  require_positive(options.shard_alignment, "shard_alignment");
  ZERO_REQUIRE(options.shard_alignment <= kMaxShardAlignment,
               "A layout option is too large; shard_alignment may be at most 2^31 elements: " +
                   std::to_string(options.shard_alignment));
}

void validate(std::span<const ParameterSpec> parameters) {
  std::unordered_map<std::string_view, std::size_t> first_index;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const ParameterSpec& parameter = parameters[i];
    ZERO_REQUIRE(!parameter.name.empty(),
                 "A parameter has no name; name every parameter: index " + std::to_string(i));
    const auto [first, inserted] = first_index.emplace(parameter.name, i);
    ZERO_REQUIRE(inserted,
                 "Two parameters have the same name; names must be unique: " + parameter.name +
                     " at indices " + std::to_string(first->second) + " and " + std::to_string(i));
    parameter.numel();  // Throws on a shape that has no size.
    validate_dtype(parameter);
    validate_alias(parameters, i);
  }
}

}  // namespace zero::layout_detail
