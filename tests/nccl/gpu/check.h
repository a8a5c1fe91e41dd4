#pragma once

/// The whole check, for real libraries or for those of a fake machine.

#include <cstdint>
#include <vector>

#include "backends/nccl/libraries.h"
#include "tests/nccl/gpu/table.h"

namespace zero::gpu_check {

struct Settings {
  std::int64_t elements = std::int64_t{64} << 20;  ///< Of each array that is timed.
  int rounds = 20;
  int devices = 0;  ///< GPUs to use; 0: all.
};

/// Each kernel beside its twin on the CPU, then its rate.
void check_kernels(const std::shared_ptr<const nccl::Apis>& apis, const Settings& settings,
                   Table& table);

/// Collectives of 1, 2, 4, ... ranks, a GPU and a thread each, beside `threads`; then their rates.
void check_ranks(const std::shared_ptr<const nccl::Apis>& apis, const Settings& settings,
                 Table& table);

/// Prints the table. Returns 0, or 1 if a number is wrong.
int check(const std::shared_ptr<const nccl::Apis>& apis, const Settings& settings);

/// Values over many magnitudes, the same for equal seeds; no infinity, no NaN.
std::vector<float> values(std::int64_t count, std::uint64_t seed);

/// Bytes of `values` in another type.
std::vector<std::byte> as_type(const std::vector<float>& values, DType dtype);

}  // namespace zero::gpu_check
