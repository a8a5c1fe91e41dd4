#pragma once

#include <string>
#include <vector>

#include "libzero/kernels/cuda/abi.h"

namespace zero::cuda {

/// Fills `kernels` from the first of `paths` that loads; it stays loaded until the process ends.
/// Empty, or what is missing, for the end of a sentence.
std::string load_kernels(const std::vector<std::string>& paths, KernelApi& kernels);

}  // namespace zero::cuda
