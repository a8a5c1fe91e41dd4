#pragma once

#include <string>
#include <vector>

namespace zero {

/// Where libzero_`name`.so may lie, the first place to look first: a backend's plug-in ("gloo"), or
/// the kernels for GPUs ("cuda_kernels").
std::vector<std::string> plugin_candidates(const std::string& name);

}  // namespace zero
