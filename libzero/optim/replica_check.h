#pragma once

/// Whether all ranks hold the same parameters.

#include <cstdint>
#include <string>
#include <vector>

#include "libzero/collective/collective.h"
#include "libzero/optim/parameter_table.h"

namespace zero {

/// For each row, a 64-bit hash of its elements' bytes in row-major order; 0 for aliases. For
/// accidents, not malice.
std::vector<std::uint64_t> hashes_of_parameters(const ParameterTable& table);

/// One hash of all of them.
std::uint64_t hash_of_parameters(const ParameterTable& table);

/// Collective: true on every rank if all have the same hash.
bool are_equal_on_ranks(std::uint64_t hash, Collective& comm);

/// Collective: empty, or, the same on every rank, the first row whose hashes differ and who holds
/// which. One hash for each rank travels; all of them only where that differs.
std::string difference_on_ranks(const std::vector<std::uint64_t>& hashes,
                                const ParameterTable& table, Collective& comm);

/// What Options::checksum_every asks for: when to compare, and what to remember of it.
class ReplicaCheck {
 public:
  /// 0: never.
  explicit ReplicaCheck(std::int64_t every) : every_(every) {}

  bool is_due(std::int64_t step) const noexcept { return every_ > 0 && step % every_ == 0; }

  /// Throws Error with `difference` unless it is empty, now and in each require_equal() from now
  /// on. `when` says when it was found: "after step 12".
  void conclude(const std::string& difference, const std::string& when);

  /// `call` begins the message: "save".
  void require_equal(const char* call) const;

  /// Everything was written anew, the same on every rank.
  void forget() noexcept { fault_.clear(); }

 private:
  const std::int64_t every_;
  std::string fault_;
};

}  // namespace zero
