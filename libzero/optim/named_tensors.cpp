#include "libzero/optim/named_tensors.h"

#include <torch/nn/module.h>

namespace zero {
namespace {

std::vector<NamedTensor> collect(const torch::OrderedDict<std::string, at::Tensor>& tensors) {
  std::vector<NamedTensor> result;
  result.reserve(tensors.size());
  for (const auto& item : tensors) result.push_back({item.key(), item.value()});
  return result;
}

}  // namespace

std::vector<NamedTensor> named_parameters(const torch::nn::Module& module) {
  return collect(module.named_parameters());
}

std::vector<NamedTensor> named_buffers(const torch::nn::Module& module) {
  return collect(module.named_buffers());
}

}  // namespace zero
