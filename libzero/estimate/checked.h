#pragma once

/// Arithmetic on sizes that came from outside.

#include <cstdint>
#include <initializer_list>

namespace zero {

/// Both throw ContractError for a negative factor or term, or a result beyond 2^62.
std::int64_t size_product(std::initializer_list<std::int64_t> factors);
std::int64_t size_sum(std::initializer_list<std::int64_t> terms);

}  // namespace zero
