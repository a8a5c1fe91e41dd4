#pragma once

/// The suite that every Collective must pass. A backend's whole test file:
///
///   const bool registered = zero::testing::register_collective_conformance(
///       {"threads", [](int size, auto timeout) { return zero::make_threads(size, timeout); }});

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "libzero/collective/collective.h"

namespace zero::testing {

struct CollectiveBackend {
  /// Makes one communicator a rank, in rank order. Each is driven, and destroyed, by a thread of
  /// its own.
  using Make = std::function<std::vector<std::shared_ptr<Collective>>(
      int world_size, std::chrono::milliseconds timeout)>;

  std::string name;
  Make make;
  std::vector<int> world_sizes = {1, 2, 3, 5};
};

/// Registers tests named "Conformance/<name>.<Claim><Type>World<N>". Call it before main() or
/// before RUN_ALL_TESTS(). Returns true, so that it can initialise a constant.
bool register_collective_conformance(const CollectiveBackend& backend);

}  // namespace zero::testing
