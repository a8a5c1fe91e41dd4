#pragma once

/// A machine with many GPUs and NCCL, all inside this process.

#include <memory>

#include "backends/nccl/libraries.h"

namespace zero::nccl_test {

nccl::NcclApi fake_nccl();
cuda::KernelApi fake_kernels();

/// Whether a living communicator was told of memory that begins here.
bool is_registered(const void* memory);

/// All three tables.
std::shared_ptr<const nccl::Apis> fake_apis();

}  // namespace zero::nccl_test
