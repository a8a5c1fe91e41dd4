#pragma once

/// The flags that decide what becomes of a run, as its checkpoints remember them.

#include <cstddef>
#include <string>
#include <vector>

#include "examples/minigpt/flags.h"

namespace minigpt {

/// Of those that may change from one part of a run to the next; the model's shape, the seed and the
/// data may not.
std::vector<std::byte> remember_trajectory(const Flags& flags);

/// "--lr 0.001 (was 0.003), --batch 16 (was 8)": what differs from what a checkpoint remembers.
/// Empty if nothing does. `remembered` may hold anything.
std::string changes_of_trajectory(const std::vector<std::byte>& remembered, const Flags& flags);

}  // namespace minigpt
