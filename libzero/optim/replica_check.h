#pragma once

/// Whether all ranks hold the same parameters.

#include <cstdint>

#include "libzero/collective/collective.h"
#include "libzero/optim/parameter_table.h"

namespace zero {

/// 64-bit hash of the elements of every parameter, in the order of rows. For accidents, not malice.
std::uint64_t hash_of_parameters(const ParameterTable& table);

/// Collective: true on every rank if all have the same hash.
bool are_equal_on_ranks(std::uint64_t hash, Collective& comm);

}  // namespace zero
