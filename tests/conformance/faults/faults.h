#pragma once

/// What every backend between processes does about ranks that die, stop, come late, abort or leave.
/// A backend's whole test files:
///
///   const bool registered = zero::fault_test::register_thread_faults({"Gloo", ranks, {...}});
///   const bool registered = zero::fault_test::register_process_faults("Gloo", RANK_PROGRAM);

#include <string>
#include <vector>

#include "tests/conformance/faults/thread_ranks.h"

namespace zero::fault_test {

struct Backend {
  std::string name;
  ThreadRanks ranks;
  /// Parts of the error of rank 1 of 4 where no other rank joins within 400 ms.
  std::vector<std::string> never_joined;
};

/// Registers tests named "<name>Failures.<Claim>", whose ranks are threads. Call it before main().
/// Returns true, so that it can initialise a constant.
bool register_thread_faults(const Backend& backend);

/// Registers tests named "<name>Processes.<Claim>", whose ranks are processes that run `program`
/// (rank_program.h). Call it before main(). Returns true.
bool register_process_faults(const std::string& name, const std::string& program);

}  // namespace zero::fault_test
