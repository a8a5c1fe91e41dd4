#pragma once

/// Which keys of a checkpoint are the trainer's, and which are libzero's own.

#include <string>
#include <string_view>

#include "checkpoint/training_state.h"
#include "libzero/optim/resume.h"

namespace zero {

/// Counter: updates applied to every parameter.
inline constexpr std::string_view kAppliedSteps = "applied_steps";
/// Blob of each rank: LibTorch's CPU generator. Those of other devices: see random_key().
inline constexpr std::string_view kRandomCpu = "random.cpu";

/// Blob: the name of the update rule, as text. AdamW's checkpoints have none.
inline constexpr std::string_view kRule = "optimizer.rule";

/// "applied_steps", and what begins with "layout.", "optimizer." or "random.".
bool is_libzero_key(std::string_view key) noexcept;

/// Empty, or which key or run id breaks the rules of TrainerState.
std::string problem_of_keys(const TrainerState& trainer);

/// What save() was given, from what it wrote. `rank_blobs`: this rank's, or none.
TrainerState trainer_part(const checkpoint::CommonState& common,
                          const std::map<std::string, checkpoint::Blob>& rank_blobs);

void put_rule(std::string_view rule, checkpoint::CommonState& common);
/// The name that a checkpoint has, which may be any text of A-Z a-z 0-9 _ . -, or "unknown".
std::string rule_of(const checkpoint::CommonState& common);

}  // namespace zero
