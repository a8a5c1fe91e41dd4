#pragma once

/// Which random states a rank takes from a checkpoint.

#include <c10/core/Device.h>

#include <optional>

#include "checkpoint/store.h"
#include "libzero/optim/load_plan.h"
#include "libzero/optim/resume.h"

namespace zero {

/// That of the default generator for `device`: its own where `rank` had one when it was saved, else
/// one derived from the first rank's that had; nothing: it keeps the present one. What is to be
/// said about it goes to items and differences of `plan`.
std::optional<checkpoint::Blob> plan_random_state(const checkpoint::Reader& reader,
                                                  const LoadOptions& options, int rank,
                                                  LoadPlan& plan, c10::Device device = c10::kCPU);

/// Says of states of other kinds of devices than the CPU and `device`'s that nobody takes them.
void note_other_random_states(const checkpoint::Reader& reader, int rank, c10::Device device,
                              LoadPlan& plan);

}  // namespace zero
