#pragma once

/// Runs the parts of a check one after the other, each in a process of its own: what one of them
/// breaks, a GPU's context for one, or hangs in, is not the others' end.

#include <iosfwd>
#include <string>
#include <vector>

namespace zero::gpu_check {

struct Part {
  std::string name;
  double seconds;  ///< It is ended after them.
};

struct Plan {
  std::vector<Part> parts;  ///< The first one says what there is to check on.
  double seconds = 0;       ///< For all of them; parts that they do not suffice for are not run.
  std::vector<std::string> command;  ///< Gets "--part" and the name of one.
};

inline constexpr int kNothingToCheckOn = 2;  ///< Exit code, also of the first part.

/// Prints the table while it goes on. Returns 0; 1 if a line is bad or a part did not end well,
/// naming it; 2 if the first part says that there is nothing to check on.
int run(const Plan& plan, std::ostream& table, std::ostream& errors);

}  // namespace zero::gpu_check
