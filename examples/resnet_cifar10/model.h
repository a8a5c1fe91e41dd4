#pragma once

/// ResNet-18 (He et al., arXiv 1512.03385): four groups of two blocks behind a stem that shrinks
/// the image to a quarter.

#include <torch/torch.h>

#include <cstdint>

namespace resnet {

/// x' + bn2(conv2(relu(bn1(conv1(x))))), where x' is x, or its projection where shapes differ.
class BlockImpl : public torch::nn::Module {
 public:
  BlockImpl(std::int64_t in, std::int64_t out, std::int64_t stride);
  torch::Tensor forward(const torch::Tensor& x);

 private:
  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr};
  torch::nn::BatchNorm2d bn1{nullptr}, bn2{nullptr};
  torch::nn::Sequential shortcut{nullptr};  // null: x itself
};
TORCH_MODULE(Block);

class ResNet18Impl : public torch::nn::Module {
 public:
  /// Draws its weights from LibTorch's default generator. `width`: channels of the first group, 64
  /// in the paper.
  explicit ResNet18Impl(std::int64_t classes, std::int64_t width = 64);

  /// images: float32 [n, 3, height, width]. Returns logits [n, classes].
  torch::Tensor forward(const torch::Tensor& images);

 private:
  torch::nn::Sequential stem{nullptr}, blocks{nullptr};
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(ResNet18);

/// Lays convolutions' weights out as oneDNN likes them (NHWC); names, shapes and values stay.
/// Before an Optimizer takes the parameters.
void to_channels_last(torch::nn::Module& model);

}  // namespace resnet
