#include "examples/resnet_cifar10/model.h"

namespace resnet {
namespace {

namespace nn = torch::nn;

nn::Conv2d convolution(std::int64_t in, std::int64_t out, std::int64_t kernel,
                       std::int64_t stride) {
  return nn::Conv2d(
      nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
}

void initialize(nn::Module& model) {
  const torch::NoGradGuard no_grad;
  for (const auto& module : model.modules(/*include_self=*/false)) {
    if (const auto* convolution = module->as<nn::Conv2dImpl>())
      nn::init::kaiming_normal_(convolution->weight, 0, torch::kFanOut, torch::kReLU);
  }
}

}  // namespace

BlockImpl::BlockImpl(std::int64_t in, std::int64_t out, std::int64_t stride) {
  conv1 = register_module("conv1", convolution(in, out, 3, stride));
  bn1 = register_module("bn1", nn::BatchNorm2d(out));
  conv2 = register_module("conv2", convolution(out, out, 3, 1));
  bn2 = register_module("bn2", nn::BatchNorm2d(out));
  nn::init::zeros_(bn2->weight);  // a block begins as its shortcut, which trains sooner
  if (in == out && stride == 1) return;
  shortcut = register_module("shortcut",
                             nn::Sequential(convolution(in, out, 1, stride), nn::BatchNorm2d(out)));
}

torch::Tensor BlockImpl::forward(const torch::Tensor& x) {
  const auto inner = bn2(conv2(torch::relu(bn1(conv1(x)))));
  return torch::relu(inner + (shortcut.is_empty() ? x : shortcut->forward(x)));
}

ResNet18Impl::ResNet18Impl(std::int64_t classes, std::int64_t width) {
  stem = register_module(
      "stem", nn::Sequential(convolution(3, width, 7, 2), nn::BatchNorm2d(width), nn::ReLU(),
                             nn::MaxPool2d(nn::MaxPool2dOptions(3).stride(2).padding(1))));
  blocks = register_module("blocks", nn::Sequential());
  for (std::int64_t group = 0, in = width; group < 4; ++group) {
    const std::int64_t out = width << group;
    blocks->push_back(Block(in, out, group == 0 ? 1 : 2));
    blocks->push_back(Block(out, out, 1));
    in = out;
  }
  head = register_module("head", nn::Linear(width << 3, classes));
  initialize(*this);
}

torch::Tensor ResNet18Impl::forward(const torch::Tensor& images) {
  return head(blocks->forward(stem->forward(images)).mean({2, 3}));
}

void to_channels_last(torch::nn::Module& model) {
  for (torch::Tensor& parameter : model.parameters()) {
    if (parameter.dim() == 4)
      parameter.set_data(parameter.detach().contiguous(torch::MemoryFormat::ChannelsLast));
  }
}

}  // namespace resnet
