#pragma once

#include <vector>

#include "libzero/base/library_version.h"

namespace zero::checkpoint {

/// HDF5 as it is loaded, xxHash as compiled in. Throws Error if HDF5 does not tell.
std::vector<LibraryVersion> library_versions();

}  // namespace zero::checkpoint
