#pragma once

/// What differs between two checkpoints besides the elements of tensors.

#include <string_view>
#include <vector>

#include "checkpoint/tools/diff.h"

namespace zero::checkpoint {

/// Two parameters of one name. `owner`: the name of what it is an alias of, empty if of none.
void compare_parameters(const ParameterSpec& a, std::string_view owner_a, const ParameterSpec& b,
                        std::string_view owner_b, std::vector<Difference>& out);

/// Steps, group options, scaler, counters, shared blobs.
void compare_common(const CommonState& a, const CommonState& b, std::vector<Difference>& out);

}  // namespace zero::checkpoint
