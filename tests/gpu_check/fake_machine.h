#pragma once

/// The fake device of tests/accelerator with the fake machine's tables.

#include "tests/gpu_check/machine.h"

namespace zero::gpu_check {

/// `faults`: those of faulty_apis(), and "damaged-store", "forgotten-memory", "large-scale",
/// "no-gpu", "on-host", "small-scale", "stage".
MachinePtr make_fake_machine(const std::vector<std::string>& faults);

}  // namespace zero::gpu_check
