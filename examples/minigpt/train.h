#pragma once

#include <torch/types.h>

#include <memory>

#include "examples/minigpt/flags.h"
#include "libzero/collective/collective.h"

namespace minigpt {

/// Trains as the flags say, on all ranks of `comm`, this one on `device`. Only rank 0 talks. Throws
/// what libzero and LibTorch throw.
void train(const Flags& flags, torch::Device device, const std::shared_ptr<zero::Collective>& comm);

}  // namespace minigpt
