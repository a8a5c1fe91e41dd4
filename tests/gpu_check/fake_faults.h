#pragma once

/// What can be wrong with the fake machine, on purpose: each must be seen.

#include <memory>
#include <string>

#include "backends/nccl/libraries.h"

namespace zero::gpu_check {

/// The fake machine's tables with one of the faults in fake_faults.cpp, by its name, or without any
/// where `fault` is none of them.
std::shared_ptr<const nccl::Apis> faulty_apis(const std::string& fault);

}  // namespace zero::gpu_check
