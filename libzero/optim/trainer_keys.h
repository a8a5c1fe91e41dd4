#pragma once

/// Which keys of a checkpoint are the trainer's, and which are libzero's own.

#include <string>
#include <string_view>

#include "checkpoint/rule_name.h"
#include "checkpoint/training_state.h"
#include "libzero/optim/resume.h"

namespace zero {

/// Counter: updates applied to every parameter.
inline constexpr std::string_view kAppliedSteps = "applied_steps";
/// Blob of each rank: LibTorch's CPU generator. Those of other devices: see random_key().
inline constexpr std::string_view kRandomCpu = "random.cpu";

/// "applied_steps", and what begins with "layout.", "optimizer." or "random.".
bool is_libzero_key(std::string_view key) noexcept;

/// Empty, or which key or run id breaks the rules of TrainerState.
std::string problem_of_keys(const TrainerState& trainer);

/// What save() was given, from what it wrote. `rank_blobs`: this rank's, or none.
TrainerState trainer_part(const checkpoint::CommonState& common,
                          const std::map<std::string, checkpoint::Blob>& rank_blobs);

using checkpoint::put_rule;
using checkpoint::rule_of;

}  // namespace zero
