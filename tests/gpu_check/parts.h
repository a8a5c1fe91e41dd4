#pragma once

/// The parts of the check that need no LibTorch.

#include <cstdint>
#include <memory>
#include <vector>

#include "backends/nccl/libraries.h"
#include "tests/gpu_check/report.h"
#include "tests/gpu_check/settings.h"

namespace zero::gpu_check {

using Apis = std::shared_ptr<const nccl::Apis>;

/// Each kernel beside its twin on the CPU, then its rate.
void check_kernels(const Apis& apis, const Settings& settings, Report& report);

/// AdamW beside a copy within the GPU, in turns.
void check_adamw_rate(const Apis& apis, const Settings& settings, Report& report);

/// Collectives of 1, 2, 4, ... ranks, a GPU and a thread each, beside `threads`; then their rates.
void check_ranks(const Apis& apis, const Settings& settings, Report& report);

/// Values over many magnitudes, the same for equal seeds; no infinity, no NaN.
std::vector<float> values(std::int64_t count, std::uint64_t seed);

/// Bytes of `values` in another type.
std::vector<std::byte> as_type(const std::vector<float>& values, DType dtype);

}  // namespace zero::gpu_check
