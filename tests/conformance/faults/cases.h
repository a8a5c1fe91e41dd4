#pragma once

/// The claims, grouped by file. Private to the suite.

#include <functional>
#include <string>
#include <vector>

#include "tests/conformance/faults/faults.h"

namespace zero::fault_test {

/// A claim about a `Subject`: a Backend, or the path of a rank program.
template <typename Subject>
struct Case {
  std::string name;
  std::function<void(const Subject&)> run;
};

std::vector<Case<Backend>> silence_cases();
std::vector<Case<Backend>> abort_cases();
std::vector<Case<Backend>> peace_cases();
std::vector<Case<std::string>> process_cases();

inline constexpr std::chrono::milliseconds kShort{400};
/// Floats a rank: more than any backend has in flight.
inline constexpr std::int64_t kLarge = 1 << 20;

/// Sums ones, `each` a rank, under the label "bucket 7". One of kLarge is opened by a barrier.
void reduce_scatter(Collective& comm, std::int64_t each, const Epilogue& epilogue = nullptr);

/// Does `action` while the call is under way.
Epilogue at_the_first_piece(std::function<void()> action);

}  // namespace zero::fault_test
