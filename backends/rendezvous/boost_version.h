#pragma once

#include "libzero/base/library_version.h"

namespace zero {

/// Of Boost's headers, as compiled in.
LibraryVersion boost_version();

}  // namespace zero
