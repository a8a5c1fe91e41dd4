#pragma once

/// What can be wrong with the fake machine, on purpose: each must be seen.

#include <memory>
#include <string>
#include <vector>

#include "backends/nccl/libraries.h"

namespace zero::gpu_check {

/// The fake machine's tables with those faults of fake_faults.cpp that are named.
std::shared_ptr<const nccl::Apis> faulty_apis(const std::vector<std::string>& names);

}  // namespace zero::gpu_check
