#pragma once

/// A checkpoint store that keeps what one rank saves, in memory: it needs neither HDF5 nor a disk.

#include <memory>

#include "checkpoint/store.h"

namespace zero::gpu_check {

/// `damages`: the first number of each float32 array is another one when it is read.
std::unique_ptr<checkpoint::Store> make_kept_store(bool damages = false);

}  // namespace zero::gpu_check
