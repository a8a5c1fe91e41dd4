/// For builds without checkpoints.

#include "libzero/base/error.h"
#include "libzero/optim/weight_source.h"

namespace zero {

std::unique_ptr<WeightSource> open_weights(const std::string& path) {
  throw Unavailable(
      "load_parameters: this build reads no weight files; build with LIBZERO_WITH_HDF5=ON, or set "
      "the parameters on rank 0 and call refresh_masters(): " +
      path);
}

}  // namespace zero
