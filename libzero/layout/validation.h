#pragma once

/// The rules that the input of a Layout must keep.

#include <span>

#include "libzero/layout/layout.h"

namespace zero::layout_detail {

/// Throws ContractError, naming the option and its value.
void validate(const LayoutOptions& options);

/// Throws ContractError, naming the first parameter that breaks a rule of Layout's constructor.
void validate(std::span<const ParameterSpec> parameters);

}  // namespace zero::layout_detail
