#pragma once

/// LibTorch's CPU generator as opaque bytes.

#include <cstdint>
#include <string>

#include "checkpoint/training_state.h"

namespace zero {

checkpoint::Blob random_state();

/// Empty, or why these bytes are no state of this LibTorch's generator.
std::string problem_of_random_state(const checkpoint::Blob& state);

/// REQUIRES a state without a problem.
void set_random_state(const checkpoint::Blob& state);

/// The state of a rank that had none: the same for the same arguments, different for different
/// ranks.
checkpoint::Blob derived_random_state(const checkpoint::Blob& of_rank_0, int rank,
                                      std::int64_t step);

}  // namespace zero
