#pragma once

#include "examples/resnet_cifar10/images.h"
#include "examples/resnet_cifar10/model.h"

namespace resnet {

struct Score {
  double loss = 0;      ///< Mean cross-entropy in nats, without label smoothing.
  double accuracy = 0;  ///< From 0 to 1.
};

/// Collective: over all images of `files`, of which each rank takes its part, the same on every
/// rank. Any number of images, be it no multiple of the ranks or less than them.
Score evaluate(ResNet18& model, const zero::CifarFiles& files, zero::Collective& comm);

}  // namespace resnet
