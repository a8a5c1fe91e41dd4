#pragma once

#include <string>
#include <string_view>

#include "libzero/base/dtype.h"
#include "libzero/base/error.h"

namespace zero {

/// Throws ContractError if a run of the update rule `rule` has gradients, or a copy of its masters
/// (null: none), of a dtype that no rule steps.
template <class Run>
void require_dtypes(const Run& run, std::string_view rule) {
  ZERO_REQUIRE(is_floating(run.gradient_dtype),
               "The gradient of a step must be float32, bfloat16 or float16: " + std::string(rule) +
                   ", " + std::string(name_of(run.gradient_dtype)));
  ZERO_REQUIRE(run.low_precision == nullptr || run.low_precision_dtype == DType::kBFloat16 ||
                   run.low_precision_dtype == DType::kFloat16,
               "The low-precision copy of a master must be bfloat16 or float16; a float32 "
               "parameter is its own master: " +
                   std::string(rule) + ", " + std::string(name_of(run.low_precision_dtype)));
}

}  // namespace zero
