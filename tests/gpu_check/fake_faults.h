#pragma once

/// What can be wrong with the fake machine, on purpose: each must be seen.

#include <memory>
#include <string>
#include <vector>

#include "backends/nccl/libraries.h"

namespace zero::gpu_check {

/// "no-accumulator", "sum-for-maximum", "idle-adamw", "wrong-bit", "slow-adamw", "error", "crash",
/// "hang".
std::vector<std::string> kernel_faults();

/// The fake machine's tables with one of them, or without any where `fault` is none of them.
std::shared_ptr<const nccl::Apis> faulty_apis(const std::string& fault);

}  // namespace zero::gpu_check
