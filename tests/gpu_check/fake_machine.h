#pragma once

/// The fake device of tests/accelerator with the fake machine's tables.

#include "tests/gpu_check/machine.h"

namespace zero::gpu_check {

/// `fault`: empty, one of faulty_apis(), or "damaged-store", "forgotten-memory", "large-scale",
/// "no-gpu", "on-host", "small-scale", "stage".
MachinePtr make_fake_machine(const std::string& fault);

}  // namespace zero::gpu_check
