#include "libzero/kernels/highway_version.h"

#include <hwy/highway.h>

namespace zero {

LibraryVersion highway_version() {
  return {"Highway", std::to_string(HWY_MAJOR) + "." + std::to_string(HWY_MINOR) + "." +
                         std::to_string(HWY_PATCH)};
}

}  // namespace zero
