#include "libzero/optim/weight_types.h"

#include <array>

#include "libzero/base/convert_floats.h"
#include "libzero/base/error.h"

namespace zero {
namespace {

struct WeightType {
  const char* name;
  c10::ScalarType type;
  std::int64_t bytes;
};

constexpr std::array<WeightType, 10> kTypes{{{"F64", at::kDouble, 8},
                                             {"F32", at::kFloat, 4},
                                             {"F16", at::kHalf, 2},
                                             {"BF16", at::kBFloat16, 2},
                                             {"I64", at::kLong, 8},
                                             {"I32", at::kInt, 4},
                                             {"I16", at::kShort, 2},
                                             {"I8", at::kChar, 1},
                                             {"U8", at::kByte, 1},
                                             {"BOOL", at::kBool, 1}}};

FloatType float_type_of(std::string_view type) {
  if (type == "F64") return FloatType::kFloat64;
  if (type == "F32") return FloatType::kFloat32;
  return type == "F16" ? FloatType::kFloat16 : FloatType::kBFloat16;
}

}  // namespace

std::string weight_type_of(c10::ScalarType type) {
  for (const WeightType& each : kTypes) {
    if (each.type == type) return each.name;
  }
  return "";
}

bool is_floating_weight(std::string_view type) {
  return type == "F64" || type == "F32" || type == "F16" || type == "BF16";
}

std::int64_t weight_size(std::string_view type) {
  for (const WeightType& each : kTypes) {
    if (each.name == type) return each.bytes;
  }
  throw ContractError("load_parameters: not a known element type: " + std::string(type));
}

std::int64_t convert_weights(std::string_view from, std::span<const std::byte> source,
                             std::string_view to, std::span<std::byte> target) {
  ZERO_REQUIRE(is_floating_weight(from) && is_floating_weight(to),
               "load_parameters: only floating types become one another: " + std::string(from) +
                   " to " + std::string(to));
  return convert_floats(float_type_of(from), source, float_type_of(to), target);
}

}  // namespace zero
