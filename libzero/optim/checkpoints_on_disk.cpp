#include "libzero/optim/checkpoints_on_disk.h"

#include "checkpoint/hdf5_store.h"

namespace zero {

std::unique_ptr<checkpoint::Store> open_store(const std::string& root) {
  return checkpoint::make_hdf5_store(checkpoint::on_disk(), root);
}

}  // namespace zero
