#pragma once

/// Digests of a state's elements that come in parts.

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/tools/meter.h"
#include "checkpoint/tools/reshard.h"

namespace zero::checkpoint {

/// The elements of one parameter must come in order; parameters and states may alternate, as they
/// do when ranks' parts come one after the other. Keeps a hash for each parameter, and the state of
/// one for each that has begun and not ended.
class DigestBuilder {
 public:
  /// REQUIRES that the table outlives it.
  explicit DigestBuilder(std::span<const ParameterSpec> parameters) : parameters_(parameters) {}

  /// Throws ContractError if the part does not follow on what came of its parameter.
  void add(std::string_view state, const Extent& part, std::span<const std::byte> bytes);

  /// Throws ContractError if a parameter has not ended.
  Digests finish();

 private:
  struct Begun {
    Hasher hasher;
    std::int64_t next = 0;
  };
  struct State {
    std::map<std::int32_t, Begun> begun;
    std::map<std::int32_t, Hash> ended;
  };

  std::span<const ParameterSpec> parameters_;
  std::map<std::string, State, std::less<>> states_;
};

/// Names of all states that any parameter has, sorted.
std::vector<std::string> states_of(const Reader& reader);

/// Bytes of all elements of all states, those of aliases not counted again.
std::uint64_t state_bytes(const Reader& reader);

/// digests_of() in parts of at most `part_bytes`, which is at least 8.
Digests digests_of(const Reader& reader, std::size_t part_bytes, Meter& meter);

}  // namespace zero::checkpoint
