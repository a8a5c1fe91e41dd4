#pragma once

/// Ranks hold the same beliefs, or every rank throws the same text that names who differs.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "libzero/collective/collective.h"

namespace zero {

/// What a rank believes, as a list: hashes to compare, words for the one that differs.
struct Facts {
  std::vector<std::uint64_t> hashes;
  std::function<std::string(std::size_t index)> text_of;  ///< Of an index within `hashes`.
};

/// Of all of them, in order: equal on every machine for equal hashes.
std::uint64_t hash_of(const Facts& facts);

/// Collective, once hash_of() was found to differ: "rank 2 has 'counter seen: 65' where rank 0 has
/// 'counter seen: 64'", the same on every rank, about the first fact that differs. A list that is
/// too short has 'nothing' there.
std::string describe_disagreement(const Facts& facts, Collective& comm);

/// Collective: checks that all ranks hold the same list (a line for each parameter, buffer and
/// option). Throws ContractError on every rank where they do not.
void require_agreement(Collective& comm, const std::vector<std::string>& facts);

/// Collective: throws ContractError on every rank unless all pass the same text. `what` says what
/// it is: "load: the checkpoint's path".
void require_same(const std::string& what, const std::string& text, Collective& comm);

}  // namespace zero
