#pragma once

/// A module's parameters and buffers by name. The one file that pays for LibTorch's module header.

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace torch::nn {
class Module;
}

namespace zero {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

/// In registration order, tied tensors under each of their names.
std::vector<NamedTensor> named_parameters(const torch::nn::Module& module);
std::vector<NamedTensor> named_buffers(const torch::nn::Module& module);

}  // namespace zero
