#pragma once

/// The claims, grouped by file. Private to the suite.

#include <functional>
#include <string>
#include <vector>

#include "tests/conformance/collective_conformance.h"

namespace zero::testing {

/// A backend at one world size.
struct Setting {
  CollectiveBackend backend;
  int world_size = 1;
};

struct Case {
  std::string name;  ///< The claim; the suite appends "World<N>".
  std::function<void(const Setting&)> run;
  int smallest_world = 1;
};

std::vector<Case> reduce_scatter_cases();
std::vector<Case> all_reduce_cases();
std::vector<Case> copy_cases();
std::vector<Case> in_flight_cases();
std::vector<Case> mismatch_cases();
std::vector<Case> failure_cases();
std::vector<Case> split_cases();
std::vector<Case> leaving_cases();

}  // namespace zero::testing
