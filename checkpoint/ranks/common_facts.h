#pragma once

/// Whether ranks believe the same about what they share.

#include <cstdint>
#include <string>

#include "checkpoint/training_state.h"
#include "libzero/collective/collective.h"

namespace zero::checkpoint {

/// Of everything in it, in a fixed order: equal states have equal hashes on every machine.
std::uint64_t hash_of(const CommonState& common);

/// Collective, once hashes were found to differ: "rank 2 has 'counter samples_seen: 65' where rank
/// 0 has 'counter samples_seen: 64'", the same on every rank, about the first thing that differs.
std::string describe_disagreement(const CommonState& common, Collective& comm);

}  // namespace zero::checkpoint
