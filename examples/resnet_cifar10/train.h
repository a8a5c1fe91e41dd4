#pragma once

#include <memory>

#include "examples/resnet_cifar10/flags.h"
#include "libzero/collective/collective.h"

namespace resnet {

/// Trains as the flags say, on all ranks of `comm`. Only rank 0 talks. Throws what libzero and
/// LibTorch throw.
void train(const Flags& flags, const std::shared_ptr<zero::Collective>& comm);

}  // namespace resnet
