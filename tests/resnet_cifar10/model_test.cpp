#include "examples/resnet_cifar10/model.h"

#include <gmock/gmock.h>

namespace resnet {
namespace {

ResNet18 make_model() {
  torch::manual_seed(1);
  return ResNet18(10, 8);
}

TEST(ResNet18, HasThePapersParameters) {
  const ResNet18 model(10);
  std::int64_t elements = 0;
  for (const auto& parameter : model->parameters()) elements += parameter.numel();
  EXPECT_EQ(elements,
            11'181'642);  // the figure for 1000 classes, 11,689,512, less 990 rows of the head
  EXPECT_EQ(model->parameters().size(), 62U);
}

TEST(ResNet18, EachWeightLearns) {
  ResNet18 model = make_model();
  {
    const torch::NoGradGuard no_grad;  // as they begin, blocks are their shortcuts
    for (const auto& item : model->named_parameters()) {
      if (item.key().ends_with("bn2.weight")) item.value().fill_(1);
    }
  }
  model->forward(torch::randn({4, 3, 32, 32})).square().sum().backward();
  for (const auto& item : model->named_parameters())
    EXPECT_GT(item.value().grad().abs().max().item<double>(), 0) << item.key();
}

TEST(ResNet18, ChannelsLastChangesTheLayoutAlone) {
  ResNet18 model = make_model();
  const ResNet18 before = make_model();
  to_channels_last(*model);
  const auto parameters = model->named_parameters();
  for (const auto& item : before->named_parameters()) {
    const torch::Tensor& now = parameters[item.key()];
    EXPECT_TRUE(torch::equal(now, item.value())) << item.key();
    EXPECT_TRUE(now.requires_grad()) << item.key();
    if (now.dim() == 4) {
      EXPECT_TRUE(now.is_contiguous(torch::MemoryFormat::ChannelsLast)) << item.key();
    }
  }
}

}  // namespace
}  // namespace resnet
