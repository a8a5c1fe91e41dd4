#pragma once

/// What every rank does for itself, and all must have done before any goes on.

#include <optional>
#include <string>

#include "libzero/collective/collective.h"
#include "libzero/collective/failure.h"

namespace zero {

/// Collective: throws on every rank if there is a failure on any: the first rank's, with its kind.
/// "rank R: " begins the text unless all ranks have the same.
void require_no_failure(const std::optional<Failure>& failure, Collective& comm,
                        const std::string& label);

/// Collective: runs `part` on every rank; where it throws on one, every rank throws.
template <class Function>
void all_or_none(Collective& comm, const std::string& label, Function part) {
  require_no_failure(attempt(part), comm, label);
}

/// Collective: "" on every rank if `problem` is empty on all of them, otherwise the first rank's
/// that has one, with "rank R: " in front. For whatever ranks must agree on before they go on.
std::string first_problem(const std::string& problem, Collective& comm, const std::string& label);

}  // namespace zero
