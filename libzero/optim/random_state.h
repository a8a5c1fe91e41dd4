#pragma once

/// LibTorch's default generators as opaque bytes.

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <string>

#include "checkpoint/training_state.h"

namespace zero {

/// What random operations of tensors on `device` draw from, unless told otherwise.
at::Generator default_generator(c10::Device device);

/// The rank blob that holds the state: "random.cpu", "random.cuda", ...
std::string random_key(c10::DeviceType type);

/// Of default_generator(device).
checkpoint::Blob random_state(c10::Device device = c10::kCPU);

/// Empty, or why these bytes are no state of this LibTorch's generator for `device`.
std::string problem_of_random_state(const checkpoint::Blob& state, c10::Device device = c10::kCPU);

/// REQUIRES a state without a problem.
void set_random_state(const checkpoint::Blob& state, c10::Device device = c10::kCPU);

/// The state of a rank that had none, made from another's: the same for the same arguments,
/// different for different ranks.
checkpoint::Blob derived_random_state(const checkpoint::Blob& of_another, int rank,
                                      std::int64_t step, c10::Device device = c10::kCPU);

}  // namespace zero
