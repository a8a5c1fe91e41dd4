#pragma once

#include <string>

namespace zero {

/// Two processes have the same exactly where they share a machine, containers or not.
std::string machine_id();

}  // namespace zero
