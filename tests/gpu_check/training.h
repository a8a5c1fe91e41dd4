#pragma once

/// Parameters of a model, gradients given beforehand, and one step with them.

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <vector>

#include "libzero/optim/optimizer.h"

namespace zero::gpu_check {

/// Waits until the GPU has nothing to do.
void synchronize(c10::Device device);

/// Blocks of a transformer, matrices and vectors, of about `count` parameters in all.
std::vector<std::vector<std::int64_t>> shapes_of(std::int64_t count);

/// Trainable parameters "0", "1", ... of these shapes, with the same bits on every device.
std::vector<NamedTensor> parameters_of(const std::vector<std::vector<std::int64_t>>& shapes,
                                       c10::ScalarType dtype, c10::Device device);
std::int64_t numel_of(const std::vector<NamedTensor>& parameters);

/// One for each parameter, with the same bits on every device, others for another seed.
std::vector<at::Tensor> gradients_of(const std::vector<NamedTensor>& parameters, std::int64_t seed);

/// A loss whose backward computes nothing: it hands out `gradients`, times the loss scale where
/// they are float16.
at::Tensor loss_with(const std::vector<NamedTensor>& parameters,
                     const std::vector<at::Tensor>& gradients);

/// On the CPU.
std::vector<at::Tensor> copies_of(const std::vector<NamedTensor>& parameters);

/// Equal to the bit; both on the CPU.
bool same(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b);

/// A rank alone.
std::shared_ptr<Collective> alone();

}  // namespace zero::gpu_check
