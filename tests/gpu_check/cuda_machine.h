#pragma once

/// This machine's GPUs, with LibTorch's CUDA half, the CUDA runtime and NCCL, all loaded now.

#include "backends/nccl/libraries.h"
#include "tests/gpu_check/machine.h"

namespace zero::gpu_check {

/// Throws Unavailable naming what is missing.
MachinePtr make_cuda_machine(const nccl::LibraryNames& names);

}  // namespace zero::gpu_check
