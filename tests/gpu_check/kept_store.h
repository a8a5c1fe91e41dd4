#pragma once

/// A checkpoint store that keeps what one rank saves, in memory: it needs neither HDF5 nor a disk.

#include <memory>

#include "checkpoint/store.h"

namespace zero::gpu_check {

std::unique_ptr<checkpoint::Store> make_kept_store();

}  // namespace zero::gpu_check
