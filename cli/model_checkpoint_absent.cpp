#include "cli/model_file.h"
#include "libzero/base/error.h"

namespace zero::cli {

Model model_of_checkpoint(const std::string& path) {
  throw Unavailable(
      "this build lacks checkpoints, describe the model in a JSON file or build libzero with "
      "LIBZERO_WITH_HDF5=ON: '" +
      path + "'");
}

}  // namespace zero::cli
