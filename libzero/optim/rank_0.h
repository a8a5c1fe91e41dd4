#pragma once

/// What rank 0 alone does, with the same outcome on every rank.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "libzero/collective/collective.h"

namespace zero {

/// What a rank throws, in a form that travels: ContractError, FormatError, IoError and Unavailable
/// arrive as such, whatever else as Error.
class TravellingError {
 public:
  /// Runs `function`; what it throws is kept.
  static TravellingError of(const std::function<void()>& function);

  bool is_error() const noexcept { return kind_ != 0; }
  std::int64_t kind() const noexcept { return kind_; }
  /// Collective: throws rank 0's error, if it has one, on every rank.
  void throw_from_rank_0(Collective& comm, std::string_view label) const;

 private:
  std::int64_t kind_ = 0;
  std::string text_;
};

/// Collective: rank 0's text on every rank.
std::string text_from_rank_0(std::string text, Collective& comm, std::string_view label);

/// Collective: rank 0's numbers on every rank.
std::vector<std::int64_t> numbers_from_rank_0(std::vector<std::int64_t> numbers, Collective& comm,
                                              std::string_view label);

}  // namespace zero
