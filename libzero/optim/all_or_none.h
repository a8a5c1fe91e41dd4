#pragma once

/// What every rank does for itself, and all must have done before any goes on.

#include <optional>
#include <string>

#include "checkpoint/ranks/failure.h"
#include "libzero/collective/collective.h"

namespace zero {

/// Collective: throws on every rank if there is a failure on any: the first rank's, with its kind.
/// "rank R: " begins the text unless all ranks have the same.
void require_no_failure(const std::optional<checkpoint::Failure>& failure, Collective& comm,
                        const std::string& label);

/// Collective: runs `part` on every rank; where it throws on one, every rank throws.
template <class Function>
void all_or_none(Collective& comm, const std::string& label, Function part) {
  require_no_failure(checkpoint::attempt(part), comm, label);
}

/// Collective: throws ContractError on every rank unless all pass the same text. `what` says what
/// it is: "load: the checkpoint's path".
void require_same(const std::string& what, const std::string& text, Collective& comm);

}  // namespace zero
