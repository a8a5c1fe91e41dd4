#pragma once

/// Which update rule a checkpoint is of.

#include <string>
#include <string_view>

#include "checkpoint/training_state.h"

namespace zero::checkpoint {

/// Blob: the name of the update rule, as text. AdamW's checkpoints have none.
inline constexpr std::string_view kRule = "optimizer.rule";

void put_rule(std::string_view rule, CommonState& common);

/// The name that a checkpoint has, which may be any text of A-Z a-z 0-9 _ . -, or "unknown".
std::string rule_of(const CommonState& common);

}  // namespace zero::checkpoint
