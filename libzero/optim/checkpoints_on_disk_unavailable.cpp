#include "libzero/base/error.h"
#include "libzero/optim/checkpoints_on_disk.h"

namespace zero {
namespace {

constexpr const char* kMissing =
    "checkpoints on disk are not in this build; build libzero with LIBZERO_WITH_HDF5=ON, or pass a "
    "checkpoint::Store of your own";

}  // namespace

std::unique_ptr<checkpoint::Store> open_store(const std::string&) {
  throw Unavailable(kMissing);
}

}  // namespace zero
