#include <algorithm>
#include <cstdint>
#include <string>

#include "libzero/base/error.h"
#include "libzero/base/shape_text.h"
#include "libzero/layout/layout.h"

namespace zero {
namespace {

constexpr std::int64_t kMaxNumel = std::int64_t{1} << 62;

}  // namespace

std::int64_t ParameterSpec::numel() const {
  const bool negative = std::any_of(shape.begin(), shape.end(), [](auto size) { return size < 0; });
  ZERO_REQUIRE(!negative,
               "A parameter has a negative dimension; pass sizes as the tensor reports them: " +
                   name + " " + shape_text(shape));
  // A zero first: [2^40, 2^40, 0] holds nothing and must not be taken for an overflow.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  std::int64_t product = 1;
  for (const std::int64_t size : shape) {
    ZERO_REQUIRE(size <= kMaxNumel / product,
                 "A parameter has more than 2^62 elements; check its shape: " + name + " " +
                     shape_text(shape));
    product *= size;
  }
  return product;
}

std::string describe(const ParameterSpec& parameter) {
  std::string text = parameter.name + " " + std::string(name_of(parameter.dtype)) + " " +
                     shape_text(parameter.shape) + " group " + std::to_string(parameter.group);
  if (!parameter.trainable) text += " frozen";
  if (parameter.alias_of != -1) text += " alias of " + std::to_string(parameter.alias_of);
  return text;
}

}  // namespace zero
