#pragma once

#include <memory>

#include "examples/minigpt/flags.h"
#include "libzero/collective/collective.h"

namespace minigpt {

/// Trains as the flags say, on all ranks of `comm`; `local_rank` is this one's number on its host,
/// which chooses its GPU. Only rank 0 talks. Throws what libzero and LibTorch throw.
void train(const Flags& flags, int local_rank, const std::shared_ptr<zero::Collective>& comm);

}  // namespace minigpt
