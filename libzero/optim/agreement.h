#pragma once

#include <string>
#include <vector>

#include "libzero/collective/collective.h"

namespace zero {

/// Collective: checks that all ranks hold the same list of facts (one line for each parameter,
/// buffer and option). Throws ContractError on every rank where they do not, with the first fact
/// that differs and who holds what.
void require_agreement(Collective& comm, std::vector<std::string> facts);

}  // namespace zero
