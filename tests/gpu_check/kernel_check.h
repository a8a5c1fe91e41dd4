#pragma once

/// What comparing kernels with their twins needs.

#include <cstring>
#include <string>
#include <vector>

#include "tests/gpu_check/device_data.h"
#include "tests/gpu_check/parts.h"

namespace zero::gpu_check {

inline constexpr DType kFloats[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};
// What is compared; odd, so that the ends of blocks are met.
inline constexpr std::int64_t kCompared = 100'003;

inline std::string text(DType dtype) {
  return std::string(name_of(dtype));
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

/// Puts a kernel onto the lane's stream.
template <class Args>
void launch(const Lane& lane, int (*kernel)(const Args*, cuda::Stream), const Args& args,
            const char* name) {
  nccl::check_cuda(*lane.apis(), kernel(&args, lane.stream()), name);
}

/// The kernels of a step: its decision, the update rules, the average, the norm's sum.
void check_step_kernels(Lane& lane, const Settings& settings, Report& report);

}  // namespace zero::gpu_check
