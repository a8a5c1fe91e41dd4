#pragma once

#include <string>
#include <vector>

namespace zero {

/// Where a backend's plug-in may lie, the first place to look first.
std::vector<std::string> plugin_candidates(const std::string& backend);

}  // namespace zero
