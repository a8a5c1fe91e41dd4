#pragma once

/// A module's parameters and buffers by name. The one file that pays for LibTorch's module header.

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace torch::nn {
class Module;
}

namespace zero {

/// A tensor under the name that errors and checkpoints give it.
struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

/// In registration order, submodules' too ("blocks.0.fc.weight"), tied tensors under each of their
/// names. The tensors are the module's own, not copies.
std::vector<NamedTensor> named_parameters(const torch::nn::Module& module);
/// The same for buffers.
std::vector<NamedTensor> named_buffers(const torch::nn::Module& module);

}  // namespace zero
