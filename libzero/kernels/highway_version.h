#pragma once

#include "libzero/base/library_version.h"

namespace zero {

/// Of Highway, as compiled in.
LibraryVersion highway_version();

}  // namespace zero
